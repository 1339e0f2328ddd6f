import pytest
import torch

from cliffordstf.algebra.stf import stf_power
from cliffordstf.algebra.tracks import natural_track
from cliffordstf.nn.geometry import Geometry
from tests.equivariance import ATOM_INVARIANTS, ATOM_VECTORS, PAIRS, POSITIONS, check_equivariance, tracks
from tests.nn import samples
from tests.nn.samples import ATOMS, draw, edge_geometry, graph, pair_geometry, positions


def test_lengths_and_directions_of_edges_and_pairs():
    places = positions()
    edges, pairs = edge_geometry(places), pair_geometry(places)
    index = edges.edges
    vectors = places[index.senders] - places[index.receivers]
    torch.testing.assert_close(edges.distances[:, None] * edges.directions, vectors)
    torch.testing.assert_close(edges.directions.norm(dim=1), torch.ones(len(vectors), dtype=torch.float64))
    torch.testing.assert_close(edges.pair_distances(), pairs.distances)
    torch.testing.assert_close(edges.directions[index.pair_edges[:, 0]], pairs.directions)
    torch.testing.assert_close(edges.directions[index.pair_edges[:, 1]], -pairs.directions)


@pytest.mark.parametrize("lmax", [0, 1, 2, 3, 4])
def test_direction_tensors_are_powers_of_the_direction(lmax):
    geometry = edge_geometry(positions())
    found = geometry.direction_tensors(lmax)
    assert found.shape == (len(geometry.distances), (lmax + 1) ** 2)
    for degree in range(lmax + 1):
        part = found[:, degree**2 : (degree + 1) ** 2]
        torch.testing.assert_close(part, stf_power(geometry.directions, degree))


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_sums_of_direction_tensors_are_equivariant(degree):
    def summed(places: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        geometry = edge_geometry(places, pairs)
        tensors = geometry.direction_tensors(degree)[:, degree**2 :] * geometry.distances[:, None]
        return geometry.sum_over_edges(tensors)[:, :, None]

    layout = samples.Layout((natural_track(degree),))
    check_equivariance(summed, [(positions(), POSITIONS), (samples.PAIRS, PAIRS)], tracks(layout))


def test_sums_over_edges_belong_to_the_receivers():
    def vectors_and_counts(places: torch.Tensor, pairs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        geometry = edge_geometry(places, pairs)
        ones = torch.ones_like(geometry.distances)
        return geometry.sum_over_edges(geometry.directions), geometry.sum_over_edges(ones)

    inputs = [(positions(), POSITIONS), (samples.PAIRS, PAIRS)]
    check_equivariance(vectors_and_counts, inputs, [ATOM_VECTORS, ATOM_INVARIANTS])
    assert vectors_and_counts(positions(), samples.PAIRS)[1].tolist() == [4.0] * (ATOMS - 1) + [0.0]


def test_derivatives_of_direction_tensors():
    """Forces and training on forces go through these."""
    edges, vectors = graph(samples.PAIRS[:2]), draw(4, 3).requires_grad_()

    def tensors(x: torch.Tensor) -> torch.Tensor:
        return Geometry.from_vectors(x, edges, ATOMS).direction_tensors(4)

    assert torch.autograd.gradcheck(tensors, vectors)
    assert torch.autograd.gradgradcheck(tensors, vectors)


def test_no_edges_at_all():
    geometry = edge_geometry(positions(), samples.PAIRS[:0])
    assert geometry.direction_tensors(3).shape == (0, 16)
    assert geometry.sum_over_edges(geometry.directions).tolist() == [[0.0] * 3] * ATOMS
