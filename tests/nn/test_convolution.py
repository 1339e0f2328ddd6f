import pytest
import torch
from torch import Tensor

from cliffordstf.algebra.tracks import SCALAR, STF2, VECTOR, Layout, natural_track
from cliffordstf.nn.convolution import Convolution
from cliffordstf.nn.radial import RadialFunctions
from tests.equivariance import PAIRS as PAIR_INDICES
from tests.equivariance import POSITIONS, check_equivariance, tracks
from tests.nn.samples import (
    ATOMS,
    CHANNELS,
    CUTOFF,
    FULL,
    PAIRS,
    check_gradients,
    draw,
    features,
    made,
    mean_square,
    pair_geometry,
    positions,
    standard,
)

FUNCTIONS, NEIGHBOURS = 4, 5.0
SCALARS = Layout((SCALAR,))
RADIAL = made(lambda: RadialFunctions(8, CUTOFF, 6, 16, 1, FUNCTIONS, 1))


def convolution(source: Layout, target: Layout, lmax: int, channels: int = CHANNELS) -> Convolution:
    return made(lambda: Convolution(source, target, lmax, channels, FUNCTIONS, NEIGHBOURS))


def arguments(places: Tensor, pairs: Tensor = PAIRS) -> tuple:
    """Radial functions, directions and edges."""
    geometry = pair_geometry(places, pairs)
    return RADIAL(geometry.distances)[0], geometry.directions, geometry.edges


@pytest.mark.parametrize("lmax", [1, 2, 3, 4])
def test_it_is_equivariant(lmax):
    layer = convolution(FULL, FULL, lmax)
    inputs = [(features(FULL), tracks(FULL)), (positions(), POSITIONS), (PAIRS, PAIR_INDICES)]
    found = layer(features(FULL), *arguments(positions()))
    assert found.shape == (ATOMS, layer.layout.dims, CHANNELS)
    check_equivariance(lambda x, places, pairs: layer(x, *arguments(places, pairs)), inputs, tracks(layer.layout))


@pytest.mark.parametrize(
    ("source", "target", "lmax", "reached"),
    [
        (SCALARS, FULL, 3, Layout(tuple(natural_track(degree) for degree in range(4)))),
        (SCALARS, SCALARS, 3, SCALARS),
        (Layout((VECTOR,)), Layout((SCALAR, STF2)), 1, Layout((SCALAR, STF2))),
    ],
)
def test_the_layout_holds_what_can_be_reached(source, target, lmax, reached):
    layer = convolution(source, target, lmax)
    assert layer.layout == reached
    assert layer(features(source), *arguments(positions())).shape[1] == reached.dims


def test_of_scalars_it_is_a_weighted_sum_over_neighbours():
    layer, x = convolution(SCALARS, SCALARS, 0), features(SCALARS)
    radial, directions, edges = arguments(positions())
    weights = (radial @ layer.mixing[:, 0]).index_select(0, edges.pair)
    sums = torch.zeros(ATOMS, CHANNELS, dtype=torch.float64)
    sums.index_add_(0, edges.receivers, (weights * x[:, 0].index_select(0, edges.senders)).detach())
    torch.testing.assert_close(layer(x, radial, directions, edges)[:, 0].detach(), sums / NEIGHBOURS**0.5)


def test_atoms_without_neighbours_receive_nothing():
    layer = convolution(FULL, FULL, 3)
    found = layer(features(FULL), *arguments(positions()))
    assert found[:-1].abs().amin() > 0
    assert not found[-1].any()
    alone = layer(features(FULL), *arguments(positions(), PAIRS[:0]))
    assert alone.shape == found.shape
    assert not alone.any()


@pytest.mark.parametrize("source", [Layout((SCALAR, VECTOR, STF2)), SCALARS], ids=str)
def test_gradients(source):
    """With respect to features, positions and the combinations of the radial functions."""
    layer = convolution(source, Layout((SCALAR, VECTOR, STF2)), 2, 2)
    check_gradients(layer, [features(source, channels=2), positions()], lambda x, places: (x, *arguments(places)))


def test_a_neighbour_leaves_smoothly():
    layer, pair = convolution(SCALARS, Layout((SCALAR, VECTOR)), 1), PAIRS[:1]
    x = features(SCALARS, 2)

    def at(distance: float) -> float:
        places = torch.tensor([[0.0, 0, 0], [0.6 * distance, 0, 0.8 * distance]], dtype=torch.float64)
        return float(layer(x, *arguments(places, pair)).detach().abs().max())

    near, nearer = at(CUTOFF - 0.2), at(CUTOFF - 0.1)
    assert 6 < near / nearer < 10  # third order: halving the distance to the cutoff divides by eight
    assert at(CUTOFF - 1e-9) < 1e-20


def test_it_keeps_unit_variance():
    """Many atoms with as many neighbours as the average, features and radial functions of unit variance."""
    torch.manual_seed(0)
    atoms, half = 400, 3
    pairs = torch.tensor([(i, (i + step) % atoms) for i in range(atoms) for step in range(1, half + 1)])
    directions = torch.nn.functional.normalize(draw(len(pairs), 3, seed=1), dim=1)
    layer = Convolution(FULL, FULL, 3, 32, 64, 2 * half).double()
    edges = pair_geometry(draw(atoms, 3), pairs).edges
    found = layer(standard(FULL, atoms, 32), draw(len(pairs), 64, seed=2), directions, edges)
    for track, part in layer.layout.split(found).items():
        assert mean_square(part, track) == pytest.approx(1, abs=0.3), track.name
