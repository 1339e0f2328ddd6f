import pytest
import torch
from torch import Tensor

from cliffordstf.algebra.tracks import SCALAR, STF2, STF3, VECTOR, Layout
from cliffordstf.nn.routing import TrackRouter, environment_invariants
from tests.equivariance import ATOM_INVARIANTS, PAIRS, POSITIONS, check_equivariance, tracks
from tests.nn import samples
from tests.nn.samples import ATOMS, CHANNELS, FULL, SPECIES, check_gradients, edge_geometry, features, made, positions

GATED = Layout((STF2, STF3))


def invariants(places: Tensor, pairs: Tensor = samples.PAIRS) -> Tensor:
    return environment_invariants(edge_geometry(places, pairs))


def router(mode: str, channels: int = CHANNELS) -> TrackRouter:
    return made(lambda: TrackRouter(GATED, channels, 2, mode))


def test_invariants_of_a_bent_molecule():
    places = torch.tensor([[0.0, 0, 0], [2.0, 0, 0], [0, 4.0, 0], [9.0, 9, 9]], dtype=torch.float64)
    found = invariants(places, torch.tensor([[0, 1], [0, 2]]))
    expected = [[2, 1 - 0.5**0.5, 3], [1, 0, 2], [1, 0, 4], [0, 1, 0]]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=2e-4)


def test_invariants_are_invariant():
    inputs = [(positions(), POSITIONS), (samples.PAIRS, PAIRS)]
    check_equivariance(invariants, inputs, ATOM_INVARIANTS)


def test_invariants_have_finite_gradients_also_where_no_neighbour_is():
    x = positions().requires_grad_()
    assert torch.autograd.gradcheck(invariants, x)
    (gradient,) = torch.autograd.grad(invariants(x).sum(), x)
    assert not gradient[-1].any()


@pytest.mark.parametrize("mode", ["static", "learned"])
def test_routing_is_equivariant_and_rescales_gated_tracks_alone(mode):
    layer, x = router(mode), features(FULL)

    def routed(values: Tensor, species: Tensor, places: Tensor, pairs: Tensor) -> Tensor:
        return layer(values, FULL, species, invariants(places, pairs))

    inputs = [
        (x, tracks(FULL)),
        (SPECIES, ATOM_INVARIANTS),
        (positions(), POSITIONS),
        (samples.PAIRS, PAIRS),
    ]
    check_equivariance(routed, inputs, tracks(FULL))
    for track, part in FULL.split(layer(x, FULL, SPECIES, invariants(positions()))).items():
        factors = part / FULL.take(x, track)
        torch.testing.assert_close(factors, factors[:, :1, :1].expand_as(factors))
        if track in GATED:
            assert ((factors > 0) & (factors < 1)).all()
        else:
            torch.testing.assert_close(factors, torch.ones_like(factors))


@pytest.mark.parametrize("mode", ["static", "learned"])
def test_gradients(mode):
    layer = router(mode, 4)
    check_gradients(
        layer, [features(FULL, channels=4), positions()], lambda x, places: (x, FULL, SPECIES, invariants(places))
    )


def test_a_static_gate_is_that_of_the_element():
    layer = TrackRouter(GATED, CHANNELS, 2, "static").double()
    with torch.no_grad():
        layer.table[1] = torch.tensor([0.0, -50.0])
    x, none = features(FULL), torch.zeros(ATOMS, 3, dtype=torch.float64)
    factors = [FULL.take(layer(x, FULL, SPECIES, none) / x, track)[:, 0, 0].tolist() for track in (STF2, STF3)]
    of_first = 1 / (1 + 2.718281828459045**-1)
    assert factors[0] == pytest.approx([0.5 if element else of_first for element in SPECIES])
    assert factors[1] == pytest.approx([0.0 if element else of_first for element in SPECIES])


def test_features_without_gated_tracks_are_left_alone():
    layout = Layout((SCALAR, VECTOR))
    x = features(layout)
    for mode in ("static", "learned"):
        torch.testing.assert_close(router(mode)(x, layout, SPECIES, invariants(positions())), x)
