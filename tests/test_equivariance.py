"""The equivariance checker finds every broken symmetry and nothing else."""

import pytest
import torch

from cliffordstf.algebra.tracks import BIVECTOR, SCALAR, VECTOR, Layout
from cliffordstf.verify.structures import random_cluster, triclinic_crystal
from tests.equivariance import (
    ATOM_INVARIANTS,
    ATOM_VECTORS,
    INVARIANT,
    PAIRS,
    POSITIONS,
    SYMMETRIES,
    TENSOR,
    check_equivariance,
    equivariance_errors,
    of_potential,
    one_track,
    tracks,
)
from tests.verify.test_symmetries import pair

X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
WEIGHTS = torch.arange(1.0, 6.0, dtype=torch.float64)
FEATURES = Layout((SCALAR, VECTOR, BIVECTOR))


def centred(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(dim=0)


def volume(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.det(centred(x)[:3])


@pytest.mark.parametrize(
    ("function", "kind", "broken"),
    [
        (lambda x: centred(x).square().sum(), INVARIANT, []),
        (lambda x: centred(x).T @ centred(x), TENSOR, []),
        (centred, ATOM_VECTORS, []),
        (lambda x: centred(x)[:, 0].square().sum(), INVARIANT, ["rotation", "reflection"]),
        (lambda x: centred(x)[:1].norm() * torch.sign(volume(x)), INVARIANT, ["reflection", "permutation"]),
        (lambda x: x.square().sum(), INVARIANT, ["translation"]),
        (lambda x: centred(x) * WEIGHTS[:, None], ATOM_VECTORS, ["permutation"]),
        (lambda x: (centred(x).square().sum(), x), [INVARIANT, ATOM_VECTORS], ["translation"]),
    ],
)
def test_exactly_the_broken_symmetries_are_found(function, kind, broken):
    errors = equivariance_errors(function, [(X, POSITIONS)], kind)
    assert [name for name in SYMMETRIES if errors[name] > 1e-3] == broken
    assert all(error < 1e-12 for name, error in errors.items() if name not in broken)


def test_a_broken_symmetry_fails_unless_it_is_left_out():
    with pytest.raises(AssertionError, match=r"not equivariant: \{'translation'"):
        check_equivariance(lambda x: x.square().sum(), [(X, POSITIONS)], INVARIANT)
    check_equivariance(lambda x: x.square().sum(), [(X, POSITIONS)], INVARIANT, ["rotation", "reflection"])
    with pytest.raises(ValueError, match="there is no symmetry 'inversion'"):
        check_equivariance(centred, [(X, POSITIONS)], ATOM_VECTORS, ["inversion"])


def test_a_result_that_is_not_a_number_fails():
    with pytest.raises(AssertionError, match="not equivariant"):
        check_equivariance(lambda x: (x[0, 0] * 0, x.sum() * torch.nan), [(X, POSITIONS)], [INVARIANT, INVARIANT])


def test_parities_of_tracks_are_told_apart():
    x = torch.randn(4, FEATURES.dims, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def crossed(features: torch.Tensor) -> torch.Tensor:
        """Vectors where bivectors belong and the other way round."""
        return features[:, [0, 4, 5, 6, 1, 2, 3]]

    check_equivariance(lambda features: 2 * features, [(x, tracks(FEATURES))], tracks(FEATURES))
    errors = equivariance_errors(crossed, [(x, tracks(FEATURES))], tracks(FEATURES))
    assert errors["reflection"] > 0.1
    part = FEATURES.take(x, VECTOR)
    check_equivariance(lambda v: v, [(part, one_track(VECTOR))], one_track(VECTOR))
    flipped = equivariance_errors(lambda v: v, [(part, one_track(VECTOR))], one_track(VECTOR, -1))
    assert flipped["rotation"] < 1e-12
    assert flipped["reflection"] == pytest.approx(2)


def test_indices_of_atoms_follow_a_permutation():
    pairs = torch.tensor([[0, 1], [1, 2], [0, 4]])

    def lengths(x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        vectors = x[indices[:, 0]] - x[indices[:, 1]]
        return torch.zeros(5, dtype=x.dtype).index_add(0, indices[:, 0], vectors.norm(dim=1))

    check_equivariance(lengths, [(X, POSITIONS), (pairs, PAIRS)], ATOM_INVARIANTS)
    errors = equivariance_errors(lengths, [(X, POSITIONS), (pairs, INVARIANT)], ATOM_INVARIANTS)
    assert errors["permutation"] > 1e-3


@pytest.mark.parametrize("make", [random_cluster, triclinic_crystal])
@pytest.mark.parametrize("fault", ["rotation", "permutation", "translation"])
def test_potentials_with_a_fault_are_found(fault, make):
    structure = make((1, 6, 8))
    check_equivariance(*of_potential(pair("none"), structure), tolerance=1e-9)
    assert equivariance_errors(*of_potential(pair(fault), structure))[fault] > 1e-4
