"""Frames along a direction: bases, turns, and what couplings become in them."""

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from cliffordstf.algebra.actions import random_rotation, track_action
from cliffordstf.algebra.couplings import admissible_couplings, track_coupling
from cliffordstf.algebra.frames import aligned_numbers, generators, natural_basis, raising, track_basis
from cliffordstf.algebra.stf import gram_matrix, stf_powers
from cliffordstf.algebra.tracks import STF2, TRACKS, VECTOR, natural_track

EDGE_TRACKS = tuple(natural_track(degree) for degree in range(5))


def frame_action(track, matrix: torch.Tensor) -> np.ndarray:
    """An orthogonal matrix of space as it acts on frame components."""
    basis = track_basis(track)
    return basis @ track_action(track, matrix).numpy() @ np.linalg.inv(basis)


@pytest.mark.parametrize("degree", range(5))
def test_frame_components_are_orthonormal(degree):
    basis, inner = natural_basis(degree), np.array(gram_matrix(degree), dtype=np.float64)
    np.testing.assert_allclose(basis.T @ basis, inner, atol=1e-12)


@pytest.mark.parametrize("track", TRACKS, ids=lambda track: track.name)
def test_turns_are_orthogonal_and_generated(track, generator):
    action = frame_action(track, random_rotation(generator))
    np.testing.assert_allclose(action @ action.T, np.eye(track.dims), atol=1e-12)
    x, y = 0.7, -0.4
    spin = torch.tensor(expm(np.array([[0, 0, y], [0, 0, -x], [-y, x, 0]])))
    turned = expm(x * generators(track)[0] + y * generators(track)[1])
    np.testing.assert_allclose(turned, frame_action(track, spin), atol=1e-12)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_raising_makes_turns_of_the_next_degree(degree, generator):
    mirror = -random_rotation(generator)
    one, lower, found = (frame_action(natural_track(l), mirror) for l in (1, degree - 1, degree))
    up = raising(degree)
    np.testing.assert_allclose(np.einsum("kij,ip,jq,lpq->kl", up, one, lower, up), found, atol=1e-12)


@pytest.mark.parametrize("entry", admissible_couplings(TRACKS, EDGE_TRACKS, TRACKS), ids=lambda c: c.a.name + c.b.name)
def test_couplings_are_numbers_in_the_frame(entry, generator):
    """Turned into the frame of a direction, multiplied, turned back: the same as the coupling with its tensors."""
    mirror = random_rotation(generator) @ torch.diag(torch.tensor([1.0, 1, -1], dtype=torch.float64))
    direction = mirror.T[:, 2]
    tensors = stf_powers(direction[None], entry.b.degree, unit=True)[0][0, entry.b.degree**2 :].numpy()
    features = torch.randn(entry.a.dims, generator=generator, dtype=torch.float64).numpy()
    expected = np.einsum("abc,a,b->c", entry.tensor().numpy(), features, tensors)
    inside = frame_action(entry.a, mirror) @ track_basis(entry.a) @ features
    result = np.zeros(entry.c.dims)
    for order, number in enumerate(aligned_numbers(entry)):
        for place in (2 * order - 1, 2 * order) if order else (0,):
            result[place] = number * inside[place]
    found = np.linalg.inv(track_basis(entry.c)) @ frame_action(entry.c, mirror).T @ result
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_couplings_that_break_parity_are_refused():
    with pytest.raises(ValueError, match="does not conserve parity"):
        aligned_numbers(track_coupling(STF2, VECTOR, STF2))
