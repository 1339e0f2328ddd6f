"""What files say about single atoms: those held in place, from constraints as ASE writes them, and tags."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def fixed_atoms(constraints: Iterable[Mapping[str, Any]], n_atoms: int) -> NDArray[np.bool_] | None:
    """Mask of the atoms that cannot move in any direction, (atoms,); None where nothing is said about atoms.

    Args:
        constraints: What ASE's `todict` gives; only FixAtoms and FixCartesian hold single atoms in place.
        n_atoms: Number of atoms.
    """
    still = np.zeros((n_atoms, 3), dtype=bool)
    found = False
    for constraint in constraints:
        values = constraint.get("kwargs", {})
        if constraint.get("name") == "FixAtoms":
            still[np.asarray(values["indices"], dtype=np.int64)] = True
        elif constraint.get("name") == "FixCartesian":
            still[np.atleast_1d(np.asarray(values["a"], dtype=np.int64))] |= np.asarray(values["mask"], dtype=bool)
        else:
            continue
        found = True
    return np.asarray(still.all(axis=1), dtype=bool) if found else None


def described(constraints: Iterable[Any]) -> list[dict[str, Any]]:
    """Constraint objects of ASE as dictionaries; those that cannot be written as such are left out."""
    return [constraint.todict() for constraint in constraints if hasattr(constraint, "todict")]


def atom_tags(values: Any) -> NDArray[np.int64] | None:
    """Whole numbers that sort the atoms, (atoms,); None where there are none, or where they are something else."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or not array.size or not np.array_equal(array, np.rint(array)):
        return None
    return array.astype(np.int64).reshape(-1)
