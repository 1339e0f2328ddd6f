import pytest
import torch
from torch import Tensor

from cliffordstf.nn.attention import EdgeAttention, softmax_over_neighbours
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.radial import GaussianBasis
from tests.equivariance import ATOM_INVARIANTS, PAIRS, POSITIONS, check_equivariance
from tests.kernels.graphs import edge_index
from tests.nn import samples
from tests.nn.samples import ATOMS, CHANNELS, CUTOFF, check_gradients, draw, edge_geometry, made, positions

BASIS = 5


def small_geometry() -> Geometry:
    return Geometry.from_vectors(draw(4, 3), edge_index([(0, 1), (0, 2)], 4), 4)


def basis(geometry: Geometry) -> Tensor:
    return GaussianBasis(BASIS, CUTOFF).double()(geometry.pair_distances())


def test_softmax_sums_to_one_per_receiver_and_survives_large_logits():
    geometry = small_geometry()
    logits = torch.tensor([[1000.0, -3.0], [999.0, -1e4], [5.0, 0.0], [-1e4, 2.0]], dtype=torch.float64)
    weights = softmax_over_neighbours(logits, geometry)
    sums = geometry.sum_over_edges(weights)
    torch.testing.assert_close(sums, torch.tensor([[1.0, 1], [1, 1], [1, 1], [0, 0]], dtype=torch.float64))
    torch.testing.assert_close(weights[:2], logits[:2].softmax(dim=0))


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention_is_one_weight_per_edge(heads):
    layer, geometry = made(lambda: EdgeAttention(CHANNELS, heads, BASIS)), edge_geometry(positions())
    weights = layer(draw(ATOMS, CHANNELS), basis(geometry), geometry)
    assert weights.shape == geometry.edges.senders.shape
    assert (weights > 0).all()
    expected = torch.tensor([1.0] * (ATOMS - 1) + [0.0], dtype=torch.float64)
    torch.testing.assert_close(geometry.sum_over_edges(weights), expected)


@pytest.mark.parametrize("heads", [1, 4])
def test_weights_are_the_mean_over_heads_of_softmaxes(heads):
    layer, geometry = made(lambda: EdgeAttention(CHANNELS, heads, BASIS)), edge_geometry(positions())
    scalars, edges, width = draw(ATOMS, CHANNELS), geometry.edges, CHANNELS // heads
    queries, keys = layer.query(scalars)[edges.receivers], layer.key(scalars)[edges.senders]
    products = (queries * keys).unflatten(1, (heads, width)).sum(dim=2) / width**0.5
    logits = products + layer.bias(basis(geometry))[edges.pair]
    expected = softmax_over_neighbours(logits, geometry).mean(dim=1)
    torch.testing.assert_close(layer(scalars, basis(geometry), geometry), expected)


def test_attention_is_invariant():
    layer = made(lambda: EdgeAttention(CHANNELS, 2, BASIS))

    def attended(scalars: Tensor, places: Tensor, pairs: Tensor) -> Tensor:
        geometry = edge_geometry(places, pairs)
        weights = layer(scalars, basis(geometry), geometry)
        return geometry.sum_over_edges(weights[:, None] * scalars[geometry.edges.senders])

    inputs = [(draw(ATOMS, CHANNELS), ATOM_INVARIANTS), (positions(), POSITIONS), (samples.PAIRS, PAIRS)]
    check_equivariance(attended, inputs, ATOM_INVARIANTS)


def test_gradients():
    layer, geometry = made(lambda: EdgeAttention(4, 2, BASIS)), edge_geometry(positions())
    check_gradients(layer, [draw(ATOMS, 4), basis(geometry)], lambda *x: (*x, geometry), of_weights=False)


def test_no_edges_at_all():
    layer, geometry = made(lambda: EdgeAttention(CHANNELS, 2, BASIS)), edge_geometry(positions(), samples.PAIRS[:0])
    assert layer(draw(ATOMS, CHANNELS), basis(geometry), geometry).shape == (0,)
