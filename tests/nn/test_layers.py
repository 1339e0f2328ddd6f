"""Every layer commutes with rotations, and with reflections where it claims to."""

import pytest
import torch
from torch import Tensor

from cliffordstf.algebra.actions import act, random_rotation
from cliffordstf.algebra.tracks import GRADES, SCALAR, STF2, STF3, STF4, VECTOR, Layout
from cliffordstf.nn.convolution import Convolution
from cliffordstf.nn.gate import NormGate, ScalarGate
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.interaction import DefaultInteraction, EdgeInputs, PaperInteraction
from cliffordstf.nn.linear import TrackLinear, merge, restrict
from cliffordstf.nn.message import EdgeEmbedding
from cliffordstf.nn.norm import TrackNorm, norm
from cliffordstf.nn.product import AugmentedProduct, WeightedProduct
from cliffordstf.nn.radial import BesselBasis, GaussianBasis, cosine_envelope, polynomial_envelope

FULL = Layout((*GRADES, STF2, STF3))
ATOMS, CHANNELS, CUTOFF = 6, 8, 5.0


def features(layout: Layout, generator: torch.Generator) -> Tensor:
    return torch.randn(ATOMS, layout.dims, CHANNELS, generator=generator, dtype=torch.float64)


def geometry(vectors: Tensor) -> Geometry:
    pairs = [(i, j) for i in range(ATOMS) for j in range(ATOMS) if i != j]
    receivers, senders = torch.tensor(pairs).T
    return Geometry.from_vectors(vectors, senders, receivers, ATOMS)


@pytest.fixture
def vectors(generator) -> Tensor:
    positions = torch.randn(ATOMS, 3, generator=generator, dtype=torch.float64) * 1.5
    pairs = [(i, j) for i in range(ATOMS) for j in range(ATOMS) if i != j]
    receivers, senders = torch.tensor(pairs).T
    return positions[senders] - positions[receivers]


def assert_commutes(layer, x: Tensor, source: Layout, target: Layout, matrix: Tensor) -> None:
    torch.testing.assert_close(layer(act(x, source, matrix)), act(layer(x), target, matrix), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TrackLinear(FULL, CHANNELS, CHANNELS, bias=True),
        lambda: TrackNorm(FULL, CHANNELS),
        lambda: NormGate(FULL, CHANNELS),
        lambda: ScalarGate(FULL, CHANNELS),
    ],
    ids=["linear", "norm", "norm gate", "scalar gate"],
)
@pytest.mark.parametrize("improper", [False, True])
def test_node_layers_commute_with_o3(make, improper, generator):
    matrix = random_rotation(generator) * (-1 if improper else 1)
    assert_commutes(make().double(), features(FULL, generator), FULL, FULL, matrix)


@pytest.mark.parametrize("body_order", [2, 3, 4])
def test_augmented_product_commutes_with_rotations_only(body_order, generator):
    layer = AugmentedProduct(FULL, FULL, FULL, CHANNELS, body_order).double()
    x, rotation = features(FULL, generator), random_rotation(generator)
    assert_commutes(layer, x, FULL, layer.layout, rotation)
    if body_order > 2:
        with pytest.raises(AssertionError):
            assert_commutes(layer, x, FULL, layer.layout, -rotation)


@pytest.mark.parametrize("body_order", [2, 3, 4, 5])
@pytest.mark.parametrize("wanted", [Layout((SCALAR,)), Layout((*GRADES, STF2, STF3, STF4))])
def test_weighted_product_commutes_with_o3(body_order, wanted, generator):
    carried = Layout((*GRADES, STF2, STF3, STF4))
    layer = WeightedProduct(FULL, carried, wanted, CHANNELS, body_order).double()
    x, matrix = features(FULL, generator) * 0.3, -random_rotation(generator)
    assert_commutes(lambda y: merge(layer.layout, *layer(y)), x, FULL, layer.layout, matrix)


def default_edges(vectors: Tensor, lmax: int) -> EdgeInputs:
    g = geometry(vectors)
    basis = BesselBasis(8, CUTOFF).double()(g.distances)
    return EdgeInputs(g, g.direction_tensors(lmax, True), basis, polynomial_envelope(g.distances, CUTOFF, 6))


@pytest.mark.parametrize("lmax", [1, 2, 3, 4])
def test_convolution_commutes_with_o3(lmax, vectors, generator):
    layer = Convolution(FULL, FULL, lmax, CHANNELS, 8, 16, 1, 5.0).double()
    x, matrix = features(FULL, generator), -random_rotation(generator)

    def run(y: Tensor, v: Tensor) -> Tensor:
        edges = default_edges(v, lmax)
        return layer(y, edges.directions, edges.basis, edges.envelope, edges.geometry)

    turned = run(act(x, FULL, matrix), vectors @ matrix.T)
    torch.testing.assert_close(turned, act(run(x, vectors), layer.layout, matrix), rtol=0, atol=1e-10)


def test_default_interaction_commutes_with_o3(vectors, generator):
    layer = DefaultInteraction(
        FULL, FULL, FULL, lmax=3, channels=CHANNELS, basis=8, radial_width=16, radial_depth=1, average_neighbours=5.0,
        body_order=4,
    ).double()  # fmt: skip
    x, matrix = features(FULL, generator) * 0.5, -random_rotation(generator)
    turned = layer(act(x, FULL, matrix), default_edges(vectors @ matrix.T, 3))
    torch.testing.assert_close(
        turned, act(layer(x, default_edges(vectors, 3)), layer.layout, matrix), rtol=0, atol=1e-10
    )


def test_paper_interaction_commutes_with_rotations(vectors, generator):
    layer = PaperInteraction(
        FULL, FULL, FULL, FULL, channels=CHANNELS, basis=10, heads=2, body_order=4, edge_stf2=True, cross=True
    ).double()
    embedding = EdgeEmbedding(10, CHANNELS, stf2=True).double()

    def edges(v: Tensor) -> EdgeInputs:
        g = geometry(v)
        basis = GaussianBasis(10, CUTOFF).double()(g.distances)
        envelope = cosine_envelope(g.distances, CUTOFF)
        return EdgeInputs(g, g.direction_tensors(2, False), basis, envelope, embedding(basis))

    x, rotation = features(FULL, generator), random_rotation(generator)
    turned = layer(act(x, FULL, rotation), edges(vectors @ rotation.T))
    torch.testing.assert_close(turned, act(layer(x, edges(vectors)), layer.layout, rotation), rtol=0, atol=1e-10)


def test_linear_and_product_keep_unit_variance(generator):
    """At initialisation every track of the default product has about unit variance."""
    torch.manual_seed(0)
    layout = Layout((*GRADES, STF2, STF3))
    layer = WeightedProduct(layout, layout, layout, 64, 3).double()
    x = torch.randn(400, layout.dims, 64, generator=generator, dtype=torch.float64)
    for track in layout:  # storage components -> unit variance in the Frobenius sense
        part = layout.take(x, track)
        part *= ((2 * track.degree + 1) / (norm(part, track) ** 2).mean()).sqrt()
    with torch.no_grad():
        square = layer(x)[1]
    for track, part in square.items():
        variance = float((norm(part, track) ** 2).mean()) / (2 * track.degree + 1)
        assert 0.1 < variance < 3, (track.name, variance)


def test_polynomial_envelope_is_c2_at_the_cutoff():
    r = torch.tensor([CUTOFF - 1e-9], dtype=torch.float64, requires_grad=True)
    value = polynomial_envelope(r, CUTOFF, 6)
    (slope,) = torch.autograd.grad(value, r, create_graph=True)
    (curvature,) = torch.autograd.grad(slope, r, create_graph=True)
    assert value.abs() < 1e-20
    assert slope.abs() < 1e-15
    assert curvature.abs() < 1e-6
    (third,) = torch.autograd.grad(curvature, r)
    assert third.abs() > 1e-2  # smooth to second order and not further
    assert polynomial_envelope(torch.tensor([0.0, CUTOFF, CUTOFF + 1]), CUTOFF, 6).tolist() == [1, 0, 0]


def test_gaussian_basis_spans_the_cutoff():
    basis = GaussianBasis(50, 6.0)
    assert basis.centres[0] == 0
    assert basis.centres[-1] == 6
    mean_square = basis(torch.linspace(1, 5, 37)).square().mean(1)
    torch.testing.assert_close(mean_square, torch.ones(37), rtol=1e-3, atol=0)


def test_restrict_pads_with_zeros(generator):
    layout = Layout((SCALAR, VECTOR))
    x = features(layout, generator)
    wider = restrict(x, layout, FULL)
    assert torch.equal(FULL.take(wider, VECTOR), layout.take(x, VECTOR))
    assert not FULL.take(wider, STF2).any()
    assert torch.equal(restrict(wider, FULL, layout), x)
