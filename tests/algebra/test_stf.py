from itertools import permutations

import pytest
import torch

from cliffordstf.algebra import stf
from cliffordstf.algebra.actions import random_rotation, track_action
from cliffordstf.algebra.tracks import natural_track

DEGREES = [0, 1, 2, 3, 4, 5]


def components(degree: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(7, 2 * degree + 1, 3, generator=generator, dtype=torch.float64)


def test_storage_order_is_the_papers():
    assert stf.component_names(2) == ("xx", "xy", "xz", "yy", "yz")
    assert stf.component_names(3) == ("xxx", "xxy", "xxz", "xyy", "xyz", "yyy", "yyz")


@pytest.mark.parametrize("degree", DEGREES)
def test_round_trip(degree, generator):
    x = components(degree, generator)
    torch.testing.assert_close(stf.from_cartesian(stf.to_cartesian(x, degree), degree), x, rtol=0, atol=1e-13)


@pytest.mark.parametrize("degree", [2, 3, 4, 5])
def test_full_tensor_is_symmetric_and_traceless(degree, generator):
    full = stf.to_cartesian(components(degree, generator), degree)
    for order in permutations(range(degree)):
        torch.testing.assert_close(full.permute(0, *(1 + i for i in order), degree + 1), full, rtol=0, atol=1e-14)
    trace = full.diagonal(dim1=1, dim2=2).sum(-1)
    assert trace.abs().max() < 1e-13


@pytest.mark.parametrize("degree", DEGREES)
def test_projection_of_a_general_tensor_is_orthogonal(degree, generator):
    """What is removed has no overlap with any symmetric-traceless tensor."""
    tensor = torch.randn(1, *(3,) * degree, 1, generator=generator, dtype=torch.float64)
    projected = stf.to_cartesian(stf.from_cartesian(tensor, degree), degree)
    basis = stf.to_cartesian(torch.eye(2 * degree + 1, dtype=torch.float64)[:, :, None], degree)
    overlap = ((tensor - projected) * basis).flatten(1).sum(1)
    assert overlap.abs().max() < 1e-13


@pytest.mark.parametrize("degree", DEGREES)
def test_frobenius_norm(degree, generator):
    x = components(degree, generator)
    full = stf.to_cartesian(x, degree)
    expected = full.square().reshape(7, -1, 3).sum(1)
    torch.testing.assert_close(stf.frobenius_squared(x, degree), expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("degree", DEGREES)
def test_power_is_the_projection_of_the_outer_power(degree, generator):
    v = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    outer = torch.ones(6, dtype=torch.float64)
    for _ in range(degree):
        outer = torch.einsum("n...,ni->n...i", outer, v)
    expected = stf.from_cartesian(outer[..., None], degree)[..., 0]
    torch.testing.assert_close(stf.stf_power(v, degree), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("degree", DEGREES)
def test_direction_norm(degree, generator):
    v = torch.nn.functional.normalize(torch.randn(5, 3, generator=generator, dtype=torch.float64), dim=1)
    size = stf.frobenius_squared(stf.stf_power(v, degree)[..., None], degree).sqrt()
    torch.testing.assert_close(size, torch.full_like(size, stf.direction_norm(degree)), rtol=1e-13, atol=0)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_action_is_a_representation(degree, generator):
    track = natural_track(degree)
    a, b = random_rotation(generator), random_rotation(generator)
    torch.testing.assert_close(
        track_action(track, a @ b), track_action(track, a) @ track_action(track, b), rtol=0, atol=1e-13
    )
    v = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    turned = stf.stf_power(v @ (-a).T, degree)
    torch.testing.assert_close(turned, stf.stf_power(v, degree) @ track_action(track, -a).T, rtol=0, atol=1e-12)
