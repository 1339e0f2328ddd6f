import pytest
import torch
from torch import Tensor

from cliffordstf.algebra.tracks import BIVECTOR, GRADES, SCALAR, STF2, VECTOR, Layout
from cliffordstf.nn.readout import FIRST_ENERGIES, DirectForces, InvariantReadout, energy_network
from tests.equivariance import (
    ATOM_INVARIANTS,
    ATOM_VECTORS,
    PAIRS,
    POSITIONS,
    SYMMETRIES,
    WITHOUT_REFLECTION,
    check_equivariance,
    equivariance_errors,
    tracks,
)
from tests.nn import samples
from tests.nn.samples import (
    ATOMS,
    CHANNELS,
    FULL,
    check_gradients,
    draw,
    edge_geometry,
    features,
    made,
    positions,
    standard,
)

SCALARS = Layout((SCALAR,))


@pytest.mark.parametrize("widths", [(64, 32), (64, 128, 128)])
def test_atomic_energies_start_near_zero(widths):
    torch.manual_seed(0)
    energies = energy_network(*widths).double()(draw(4000, 64)).detach()
    assert energies.shape == (4000, 1)
    assert float(energies.square().mean().sqrt()) == pytest.approx(FIRST_ENERGIES, rel=0.4)


@pytest.mark.parametrize("gp_scalars", [True, False])
@pytest.mark.parametrize("layout", [FULL, Layout(GRADES), SCALARS], ids=str)
def test_energies_are_invariant_with_gradients(layout, gp_scalars):
    layer = made(lambda: InvariantReadout(layout, CHANNELS, 6, gp_scalars))
    assert layer(features(layout)).shape == (ATOMS,)
    check_equivariance(layer, [(features(layout), tracks(layout))], ATOM_INVARIANTS)
    check_gradients(made(lambda: InvariantReadout(layout, 2, 3, gp_scalars)), [features(layout, 3, 2)])


def test_vectors_count_only_through_the_geometric_product():
    x = features(FULL)
    other = x.clone()
    FULL.take(other, VECTOR).mul_(2)
    for gp_scalars in (True, False):
        layer = made(lambda gp_scalars=gp_scalars: InvariantReadout(FULL, CHANNELS, 6, gp_scalars))
        assert torch.allclose(layer(x), layer(other)) != gp_scalars


def test_an_atom_without_features_has_a_finite_gradient():
    x = torch.zeros(2, FULL.dims, CHANNELS, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(made(lambda: InvariantReadout(FULL, CHANNELS, 6, True))(x).sum(), x)
    assert gradient.isfinite().all()


def forces(layer: DirectForces):
    """Function of features, positions and pairs."""

    def function(x: Tensor, places: Tensor, pairs: Tensor = samples.PAIRS) -> Tensor:
        geometry = edge_geometry(places, pairs)
        return layer(x, geometry.direction_tensors(2), geometry)

    return function


def inputs(layout: Layout) -> list:
    return [(features(layout), tracks(layout)), (positions(), POSITIONS), (samples.PAIRS, PAIRS)]


@pytest.mark.parametrize("layout", [FULL, Layout(GRADES), Layout((SCALAR, VECTOR, STF2))], ids=str)
@pytest.mark.parametrize("hodge", [True, False])
def test_direct_forces_turn_with_the_structure(layout, hodge):
    layer = made(lambda: DirectForces(layout, CHANNELS, 6, hodge))
    errors = equivariance_errors(forces(layer), inputs(layout), ATOM_VECTORS, SYMMETRIES)
    reflection = errors.pop("reflection")
    assert set(errors) == set(WITHOUT_REFLECTION)
    assert max(errors.values()) < 1e-10
    assert (reflection > 0.01) == (hodge and BIVECTOR in layout)


@pytest.mark.parametrize(("hodge", "vectors"), [(True, True), (False, True), (False, False)])
def test_gradients_of_direct_forces(hodge, vectors):
    layer = made(lambda: DirectForces(FULL, 2, 3, hodge, vectors))

    def arguments(x: Tensor, places: Tensor) -> tuple:
        geometry = edge_geometry(places)
        return x, geometry.direction_tensors(1), geometry

    check_gradients(layer, [features(FULL, channels=2), positions()], arguments)


def test_direct_forces_without_neighbours_come_from_the_vectors():
    layer, x = made(lambda: DirectForces(FULL, CHANNELS, 6, hodge=False)), features(FULL)
    found = forces(layer)(x, positions())
    of_vectors = FULL.take(x, VECTOR) @ layer.weight
    torch.testing.assert_close(found[-1], of_vectors[-1])
    assert ((found - of_vectors)[:-1].abs().amax(dim=1) > 1e-6).all()
    torch.testing.assert_close(forces(layer)(x, positions(), samples.PAIRS[:0]), of_vectors)


def test_forces_of_vectors_have_unit_variance():
    torch.manual_seed(0)
    layer = DirectForces(Layout((SCALAR, VECTOR)), 64, 6, hodge=False).double()
    x = standard(Layout((SCALAR, VECTOR)), 400, 64)
    geometry = edge_geometry(draw(400, 3), samples.PAIRS[:0])
    found = layer(x, geometry.direction_tensors(1), geometry).detach()
    assert float(found.square().mean()) == pytest.approx(1, abs=0.4)
