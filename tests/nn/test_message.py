import pytest
import torch
from torch import Tensor

from cliffordstf.algebra.clifford import geometric_product
from cliffordstf.algebra.couplings import track_coupling
from cliffordstf.algebra.tracks import BIVECTOR, GRADES, PSEUDOSCALAR, SCALAR, STF2, STF3, VECTOR, Layout
from cliffordstf.nn.linear import VECTOR_WIDTH
from cliffordstf.nn.message import DualTrackMessage, EdgeEmbedding, message_grades
from cliffordstf.nn.radial import GaussianBasis, cosine_envelope
from tests.equivariance import PAIRS as PAIR_INDICES
from tests.equivariance import POSITIONS, check_equivariance, tracks
from tests.nn.samples import (
    ATOMS,
    CHANNELS,
    CUTOFF,
    FULL,
    PAIRS,
    check_gradients,
    edge_geometry,
    features,
    made,
    positions,
)

BASIS = 10
SCALARS = Layout((SCALAR,))
VARIANTS = [
    (FULL, FULL, True, True),
    (FULL, FULL, False, False),
    (SCALARS, FULL, True, True),
    (Layout((SCALAR, VECTOR)), Layout(GRADES), True, False),
    (FULL, SCALARS, False, True),
]


def message(source: Layout, target: Layout, edge_stf2: bool, cross: bool, channels: int = CHANNELS) -> DualTrackMessage:
    return made(lambda: DualTrackMessage(source, target, channels, BASIS, 2, edge_stf2, cross))


def arguments(places: Tensor, pairs: Tensor = PAIRS, stf2: bool = True, channels: int = CHANNELS) -> tuple:
    """Everything but the features."""
    geometry = edge_geometry(places, pairs)
    lengths = geometry.pair_distances()
    basis, envelope = GaussianBasis(BASIS, CUTOFF).double()(lengths), cosine_envelope(lengths, CUTOFF)
    hidden = made(lambda: EdgeEmbedding(BASIS, channels, stf2))(basis, envelope)
    return geometry.direction_tensors(2), basis, hidden, envelope, geometry


@pytest.mark.parametrize(("source", "target", "edge_stf2", "cross"), VARIANTS)
def test_messages_are_equivariant(source, target, edge_stf2, cross):
    layer = message(source, target, edge_stf2, cross)

    def aggregated(x: Tensor, places: Tensor, pairs: Tensor) -> Tensor:
        return layer(x, *arguments(places, pairs, edge_stf2))

    inputs = [(features(source), tracks(source)), (positions(), POSITIONS), (PAIRS, PAIR_INDICES)]
    found = aggregated(*(value for value, _ in inputs))
    assert found.shape == (ATOMS, layer.layout.dims, CHANNELS)
    assert set(layer.layout) <= set(target)
    check_equivariance(aggregated, inputs, tracks(layer.layout))


@pytest.mark.parametrize(("source", "target", "edge_stf2", "cross"), VARIANTS[:3])
def test_gradients(source, target, edge_stf2, cross):
    layer = message(source, target, edge_stf2, cross, channels=2)
    check_gradients(
        layer,
        [features(source, channels=2), positions()],
        lambda x, places: (x, *arguments(places, stf2=edge_stf2, channels=2)),
        of_weights=False,
    )


def test_messages_of_grades_are_geometric_products_with_the_edge_from_both_sides():
    """α [W1 GP(h_j, e) + W2 GP(e, h_j) + W_skip h_j⁽⁰⁾], matrices on edges as the paper writes them."""
    grades = Layout(GRADES)
    layer, x = message(grades, grades, False, False), features(grades)
    directions, basis, hidden, envelope, geometry = arguments(positions(), stf2=False)
    edges = geometry.edges
    parts = [
        layer.edge_heads[name](hidden[:, index, :CHANNELS]) - (1 - envelope[:, None]) * layer.edge_heads[name].bias
        for index, name in enumerate("01")
    ]
    of_edge = [part.index_select(0, edges.pair)[:, None] for part in parts]
    zeros = torch.zeros(len(edges.senders), 4, CHANNELS, dtype=torch.float64)
    edge = torch.cat([of_edge[0], of_edge[1] * directions[:, 1:4, None], zeros], dim=1)
    sent = x.index_select(0, edges.senders)
    sides = grades.split(geometric_product(sent, edge)), grades.split(geometric_product(edge, sent))
    weights = layer.weights
    messages = [
        left @ weights[f"left_{track.name}"] + right @ weights[f"right_{track.name}"]
        for (track, left), right in zip(sides[0].items(), sides[1].values(), strict=True)
    ]
    messages[0] = messages[0] + sent[:, :1] @ weights["skip_scalar"]
    alpha = layer.attention(x[:, 0], basis, geometry)
    expected = geometry.sum_over_edges(alpha[:, None, None] * torch.cat(messages, dim=1))
    torch.testing.assert_close(layer(x, directions, basis, hidden, envelope, geometry), expected)


def test_tensors_are_made_of_the_next_lower_degree_and_sent_without_attention():
    """STF2: ρ [W_gen STF2(v_j, r̂) + W_send S_j], with ρ a function of the distance."""
    source, target = Layout((SCALAR, VECTOR, STF2)), Layout((STF2,))
    layer, x = message(source, target, False, False), features(source)
    directions, basis, hidden, envelope, geometry = arguments(positions(), stf2=False)
    edges = geometry.edges
    radial = (layer.radial(basis) * envelope[:, None]).index_select(0, edges.pair)[:, None]
    sent = x.index_select(0, edges.senders)
    generated = torch.einsum(
        "eac,eb,abk->ekc", sent[:, 1:4], directions[:, 1:4], track_coupling(VECTOR, VECTOR, STF2).tensor()
    )
    values = generated @ layer.weights["generate_stf2"] + sent[:, 4:] @ layer.weights["send_stf2"]
    found = layer(x, directions, basis, hidden, envelope, geometry)
    torch.testing.assert_close(found, geometry.sum_over_edges(radial * values))


def test_atoms_without_neighbours_receive_nothing():
    layer = message(FULL, FULL, True, True)
    found = layer(features(FULL), *arguments(positions()))
    assert found[:-1].abs().amin() > 0
    assert not found[-1].any()
    assert not layer(features(FULL), *arguments(positions(), PAIRS[:0])).any()


def test_wider_features_stay_zero_beyond_the_channels():
    layer, x = message(FULL, FULL, True, True), features(FULL)
    wide = layer(torch.nn.functional.pad(x, (0, 5)), *arguments(positions()))
    torch.testing.assert_close(wide[..., :CHANNELS], layer(x, *arguments(positions())), rtol=0, atol=1e-12)
    assert not wide[..., CHANNELS:].any()


def test_hidden_edge_features_vanish_with_the_envelope_and_beyond_the_channels():
    layer = made(lambda: EdgeEmbedding(BASIS, CHANNELS, stf2=True))
    lengths = torch.tensor([1.0, CUTOFF - 1e-6, CUTOFF + 1], dtype=torch.float64)
    hidden = layer(GaussianBasis(BASIS, CUTOFF).double()(lengths), cosine_envelope(lengths, CUTOFF))
    assert hidden.shape == (3, 3, VECTOR_WIDTH)
    assert not hidden[..., CHANNELS:].any()
    assert hidden[0, :, :CHANNELS].abs().amin() > 0
    assert hidden[1].abs().max() < 1e-10
    assert not hidden[2].any()
    assert EdgeEmbedding(BASIS, CHANNELS, stf2=False).count == 2


@pytest.mark.parametrize(
    ("source", "max_grade", "reached"),
    [
        (SCALARS, 3, (SCALAR, VECTOR)),
        (Layout((SCALAR, VECTOR)), 3, (SCALAR, VECTOR, BIVECTOR)),
        (Layout((SCALAR, VECTOR)), 1, (SCALAR, VECTOR)),
        (Layout((SCALAR, VECTOR, BIVECTOR, STF2)), 3, GRADES),
        (Layout((PSEUDOSCALAR,)), 3, (BIVECTOR, PSEUDOSCALAR)),
        (Layout((STF2, STF3)), 3, ()),
    ],
)
def test_grades_that_a_message_can_reach(source, max_grade, reached):
    assert message_grades(source, max_grade) == reached
