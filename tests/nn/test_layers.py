"""Every layer commutes with rotations, and with reflections where it claims to."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from cliffordstf.algebra.actions import act, random_rotation
from cliffordstf.algebra.stf import stf_power
from cliffordstf.algebra.tracks import GRADES, SCALAR, STF2, STF3, STF4, VECTOR, Layout
from cliffordstf.graph import EdgeIndex
from cliffordstf.nn.convolution import Convolution
from cliffordstf.nn.gate import NormGate, ScalarGate
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.interaction import DefaultInteraction, EdgeInputs, PaperInteraction
from cliffordstf.nn.linear import TrackLinear, linear_sum, sum_plan
from cliffordstf.nn.message import EdgeEmbedding
from cliffordstf.nn.norm import TrackNorm, norm
from cliffordstf.nn.product import AugmentedProduct, WeightedProduct
from cliffordstf.nn.radial import BesselBasis, GaussianBasis, RadialFunctions, cosine_envelope, polynomial_envelope
from tests.kernels.graphs import edge_index

FULL = Layout((*GRADES, STF2, STF3))
ATOMS, CHANNELS, CUTOFF = 6, 8, 5.0
SPECIES = torch.tensor([0, 1, 1, 0, 1, 0])


def features(layout: Layout, generator: torch.Generator) -> Tensor:
    return torch.randn(ATOMS, layout.dims, CHANNELS, generator=generator, dtype=torch.float64)


EDGES = edge_index([(i, j) for i in range(ATOMS) for j in range(i + 1, ATOMS)], ATOMS)


def geometry(vectors: Tensor) -> Geometry:
    return Geometry.from_vectors(vectors, EDGES, ATOMS)


@pytest.fixture
def vectors(generator) -> Tensor:
    positions = torch.randn(ATOMS, 3, generator=generator, dtype=torch.float64) * 1.5
    return positions[EDGES.senders] - positions[EDGES.receivers]


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
    for order, layout in enumerate(layer.powers):
        assert_commutes(lambda y, n=order: layer(y)[n], x, FULL, layout, rotation)
    if body_order > 2:
        with pytest.raises(AssertionError):
            assert_commutes(lambda y: layer(y)[1], x, FULL, layer.powers[1], -rotation)


@pytest.mark.parametrize("body_order", [2, 3, 4, 5])
@pytest.mark.parametrize("wanted", [Layout((SCALAR,)), Layout((*GRADES, STF2, STF3, STF4))])
def test_weighted_product_commutes_with_o3(body_order, wanted, generator):
    carried = Layout((*GRADES, STF2, STF3, STF4))
    layer = WeightedProduct(FULL, carried, wanted, 2, CHANNELS, body_order).double()
    x, matrix = features(FULL, generator) * 0.3, -random_rotation(generator)
    for order, layout in enumerate(layer.powers):
        assert_commutes(lambda y, n=order: layer(y, SPECIES)[n], x, FULL, layout, matrix)


def default_inputs(vectors: Tensor) -> tuple[Tensor, Tensor, EdgeIndex]:
    """Radial functions and directions of the pairs."""
    torch.manual_seed(0)
    functions = RadialFunctions(8, CUTOFF, 6, 16, 1, 4, 1).double()
    pairs = Geometry.from_vectors(vectors[EDGES.pair_edges[:, 0]], EDGES, ATOMS)
    return functions(pairs.distances)[0], pairs.directions, EDGES


@pytest.mark.parametrize("lmax", [1, 2, 3, 4])
def test_convolution_commutes_with_o3(lmax, vectors, generator):
    layer = Convolution(FULL, FULL, lmax, CHANNELS, 4, 5.0).double()
    x, matrix = features(FULL, generator), -random_rotation(generator)
    turned = layer(act(x, FULL, matrix), *default_inputs(vectors @ matrix.T))
    straight = layer(x, *default_inputs(vectors))
    torch.testing.assert_close(turned, act(straight, layer.layout, matrix), rtol=0, atol=1e-10)


def test_default_interaction_commutes_with_o3(vectors, generator):
    layer = DefaultInteraction(
        FULL,
        FULL,
        FULL,
        elements=2,
        lmax=3,
        channels=CHANNELS,
        radial_functions=4,
        average_neighbours=5.0,
        body_order=4,
    ).double()
    x, matrix = features(FULL, generator) * 0.5, -random_rotation(generator)
    turned = layer(act(x, FULL, matrix), SPECIES, *default_inputs(vectors @ matrix.T))
    straight = layer(x, SPECIES, *default_inputs(vectors))
    torch.testing.assert_close(turned, act(straight, layer.layout, matrix), rtol=0, atol=1e-10)


def test_paper_interaction_commutes_with_rotations(vectors, generator):
    layer = PaperInteraction(
        FULL, FULL, FULL, FULL, channels=CHANNELS, basis=10, heads=2, body_order=4, edge_stf2=True, cross=True
    ).double()
    embedding = EdgeEmbedding(10, CHANNELS, stf2=True).double()

    def edges(v: Tensor) -> EdgeInputs:
        g = geometry(v)
        basis = GaussianBasis(10, CUTOFF).double()(g.pair_distances())
        envelope = cosine_envelope(g.pair_distances(), CUTOFF)
        return EdgeInputs(g, g.direction_tensors(2), basis, envelope, embedding(basis, envelope))

    x, rotation = features(FULL, generator), random_rotation(generator)
    turned = layer(act(x, FULL, rotation), edges(vectors @ rotation.T))
    torch.testing.assert_close(turned, act(layer(x, edges(vectors)), layer.layout, rotation), rtol=0, atol=1e-10)


def test_linear_and_product_keep_unit_variance(generator):
    """At initialisation every track of the default product has about unit variance."""
    torch.manual_seed(0)
    layout = Layout((*GRADES, STF2, STF3))
    layer = WeightedProduct(layout, layout, layout, 1, 64, 3).double()
    x = torch.randn(400, layout.dims, 64, generator=generator, dtype=torch.float64)
    for track in layout:  # storage components -> unit variance in the Frobenius sense
        part = layout.take(x, track)
        part *= ((2 * track.degree + 1) / (norm(part, track) ** 2).mean()).sqrt()
    with torch.no_grad():
        square = layer(x, torch.zeros(400, dtype=torch.int64))[1]
    for track, part in layer.powers[1].split(square).items():
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


@pytest.mark.parametrize("warp", [None, 3.0])
def test_slopes_of_radial_functions_are_their_derivatives(warp, generator):
    torch.manual_seed(0)
    functions = RadialFunctions(8, CUTOFF, 6, 16, 2, 4, 2, elements=3, warp=warp).double()
    r = (torch.rand(7, generator=generator, dtype=torch.float64) * 5.4 + 0.3).requires_grad_()
    ends = torch.randint(3, (7, 2), generator=generator)
    assert torch.autograd.gradcheck(functions, (r, ends))
    assert torch.autograd.gradgradcheck(functions, (r, ends))


def test_a_warp_makes_the_basis_finer_at_short_distances():
    def zeros(warp: float | None) -> list[float]:
        """Where the eighth function changes its sign, Å."""
        r = torch.linspace(0.2, CUTOFF - 1e-3, 20_000, dtype=torch.float64)
        values = BesselBasis(8, CUTOFF, warp).double()(r)[:, 7]
        return r[1:][values[1:] * values[:-1] < 0].tolist()

    even, warped = zeros(None), zeros(3.0)
    assert len(even) == len(warped) == 7
    assert np.diff(even) == pytest.approx(CUTOFF / 8, abs=1e-3)
    assert warped[0] < 0.6 * even[0]
    assert all(longer > shorter for shorter, longer in itertools.pairwise(np.diff(warped)))
    # A warp over a long way is none.
    assert zeros(1e4) == pytest.approx(even, abs=1e-2)


def test_derivatives_of_direction_tensors(vectors):
    def tensors(v: Tensor) -> Tensor:
        return geometry(v).direction_tensors(4)

    leaf = vectors[:4].clone().requires_grad_()
    assert torch.autograd.gradcheck(tensors, (leaf,), fast_mode=True)
    assert torch.autograd.gradgradcheck(tensors, (leaf,), fast_mode=True)
    traced = torch.cat([stf_power(leaf / leaf.norm(dim=1, keepdim=True), degree) for degree in range(5)], dim=1)
    torch.testing.assert_close(tensors(leaf), traced, rtol=0, atol=1e-12)


def test_gaussian_basis_spans_the_cutoff():
    basis = GaussianBasis(50, 6.0)
    assert basis.centres[0] == 0
    assert basis.centres[-1] == 6
    mean_square = basis(torch.linspace(1, 5, 37)).square().mean(1)
    torch.testing.assert_close(mean_square, torch.ones(37), rtol=1e-3, atol=0)


def test_sums_add_the_tracks_that_the_target_has(generator):
    source, target = Layout((SCALAR, VECTOR)), Layout((VECTOR, STF2))
    linear = TrackLinear(target, CHANNELS, CHANNELS).double()
    x, y = features(target, generator), features(source, generator)
    result = linear_sum(sum_plan(target, [(target, linear)], added=source), [(x, linear)], added=y)
    expected = linear(x)
    expected[:, :3] += y[:, 1:]
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TrackLinear(FULL, CHANNELS, CHANNELS, bias=True),
        lambda: TrackNorm(FULL, CHANNELS),
        lambda: NormGate(FULL, CHANNELS),
    ],
    ids=["linear", "norm", "norm gate"],
)
def test_channels_that_a_layer_does_not_have_stay_zero(make, generator):
    layer = make().double()
    x = features(FULL, generator)
    wide = layer(pad(x, (0, 5)))
    torch.testing.assert_close(wide[..., :CHANNELS], layer(x), rtol=0, atol=1e-13)
    assert not wide[..., CHANNELS:].any()
