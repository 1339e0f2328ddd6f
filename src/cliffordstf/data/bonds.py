"""Which atoms are bonded, judged by their distance."""

from typing import Any

import numpy as np
from ase.data import covalent_radii

from cliffordstf.data.structure import FloatArray, Structure

BONDED = 1.25
"""Atoms closer than so many times the sum of their covalent radii are bonded."""


LARGEST_MOLECULE = 500
"""Atoms; larger structures are not looked at, all their distances at once would need too much memory."""


def bonded_pairs(numbers: Any, positions: FloatArray) -> list[tuple[int, int]]:
    """Pairs of atoms that are bonded in a structure without images."""
    first, second = np.nonzero(np.triu(_bonded(numbers, positions), k=1))
    return list(zip(first.tolist(), second.tolist(), strict=True))


def is_one_molecule(structure: Structure) -> bool:
    """Whether bonds connect all atoms, at most 500, and nothing repeats."""
    if structure.pbc.any() or len(structure.numbers) > LARGEST_MOLECULE:
        return False
    bonded = _bonded(structure.numbers, structure.positions)
    reached = np.zeros(len(bonded), dtype=bool)
    reached[0] = True
    while True:
        grown = reached | bonded[reached].any(axis=0)
        if (grown == reached).all():
            return bool(reached.all())
        reached = grown


def _bonded(numbers: Any, positions: FloatArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    radii = covalent_radii[np.clip(numbers, 0, len(covalent_radii) - 1)]
    distances = np.linalg.norm(positions[:, None] - positions, axis=2)
    return np.asarray(distances < BONDED * (radii[:, None] + radii))
