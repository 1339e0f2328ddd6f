"""Training, validation and test sets: seeded, and checked for structures that are in two of them."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cliffordstf.data.frame import Frame
from cliffordstf.data.structure import Structure
from cliffordstf.errors import DataError


def count_of(share: float, total: int, what: str) -> int:
    """Number of structures: a fraction below 1 of the total, or a count."""
    number = round(share * total) if 0 < share < 1 else round(share)
    if share < 0 or number > total:
        raise DataError(
            f"{what}={share:g} asks for {number} of {total} structures; give a fraction or a smaller count."
        )
    return int(number)


def random_split(
    total: int, valid: float, test: float, seed: int, train: float | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Indices of training, validation and test set, drawn without replacement.

    Args:
        total: Structures to draw from.
        valid, test: Fraction (below 1) or count (1 or more); 0 for none.
        seed: The same seed gives the same split.
        train: Fraction or count; by default everything that is left.
    """
    n_test, n_valid = count_of(test, total, "test"), count_of(valid, total, "valid")
    left = total - n_test - n_valid
    n_train = left if train is None else count_of(train, total, "train")
    if n_train < 1 or n_train > left:
        raise DataError(
            f"{total} structures cannot give {n_train} for training, {n_valid} for validation and {n_test} for test; "
            "ask for fewer."
        )
    order = np.random.default_rng(seed).permutation(total)
    held_out = n_test + n_valid
    return order[held_out : held_out + n_train], order[n_test:held_out], order[:n_test]


def fingerprint(structure: Structure) -> str:
    """The same for a structure moved or turned as a whole, or with its atoms in another order.

    Made of each atom's element and its sums of distances to the atoms of every element, of the cell's metric and of the
    periodic directions.
    """
    numbers, positions = structure.numbers, structure.positions
    elements = np.unique(numbers)
    sums = np.empty((len(numbers), len(elements)))
    for row, position in enumerate(positions):
        distances = np.linalg.norm(positions - position, axis=1)
        sums[row] = [distances[numbers == element].sum() for element in elements]
    rows = np.column_stack([numbers, np.round(sums, 3) + 0.0])
    digest = hashlib.sha256(rows[np.lexsort(rows.T)].tobytes())
    digest.update((np.round(structure.cell @ structure.cell.T, 3) + 0.0).tobytes())
    digest.update(structure.pbc.tobytes())
    return digest.hexdigest()


def fingerprints(frames: Sequence[Frame]) -> list[str]:
    """`fingerprint` of every frame."""
    return [fingerprint(frame.structure) for frame in frames]


def leaked(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs (index in first, index in second) of the same structure, from their fingerprints."""
    known = {key: index for index, key in enumerate(first)}
    return [(known[key], index) for index, key in enumerate(second) if key in known]
