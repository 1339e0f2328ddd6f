"""Structures that are the same: moved or turned as a whole, atoms in another order or in another periodic image."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cliffordstf.data.frame import Frame
from cliffordstf.data.neighbours import edge_lengths, neighbour_list
from cliffordstf.data.structure import FloatArray, Structure

SAME = 1e-4
"""Å: how much an average distance between atoms may differ; files are often written with six decimals."""
REACH = 5.0
"""Å: how far the surroundings of an atom are compared in a periodic structure."""
ROWS = 256
"""Atoms whose distances to all others are found at once: one by one is slow, all is too much for large molecules."""
SAME_ENERGY = 1e-3
"""eV: energies of equal structures that differ by more contradict each other."""
SAME_FORCE = 1e-2
"""eV/Å: the same for the length of the force on any atom, whatever the order of the atoms."""


@dataclass(frozen=True)
class Mark:
    """What equal structures have in common: `kind` exactly, `values` within `tolerance`."""

    kind: Hashable
    values: FloatArray
    tolerance: float


@dataclass(frozen=True)
class Duplicates:
    """Equal structures.

    Attributes:
        members: Indices, in order.
        energy_difference: Between the lowest and the highest energy, eV, if it is above 1 meV; else None.
        force_difference: Largest difference of sorted lengths of forces, eV/Å, if above 0.01; else None.
    """

    members: tuple[int, ...]
    energy_difference: float | None
    force_difference: float | None

    @property
    def contradicts(self) -> bool:
        """Whether equal structures have different labels."""
        return self.energy_difference is not None or self.force_difference is not None


def mark(structure: Structure) -> Mark:
    """Numbers by which equal structures are found.

    For every pair of elements the sorted sums, over the atoms of one, of distances to the atoms of the other; in a
    periodic structure of smooth functions of these distances, which do not depend on the choice of images.
    """
    numbers = structure.numbers
    elements = np.unique(numbers)
    is_element = (numbers[:, None] == elements).astype(np.float64)
    sums = _periodic_sums(structure, is_element) if structure.pbc.any() else _sums(structure, is_element)
    values = [np.sort(sums[numbers == element], axis=0).ravel() for element in elements]
    lattice = (structure.cell @ structure.cell.T)[np.ix_(structure.pbc, structure.pbc)]
    scale = max(1.0, float(np.abs(lattice).max(initial=0.0)))
    volume = structure.periodic_measure() if structure.pbc.any() else 0.0
    kind = (tuple(np.sort(numbers).tolist()), tuple(structure.pbc.tolist()))
    tolerance = SAME * max(1, len(numbers)) ** 0.5
    return Mark(kind, np.concatenate([*values, [volume / scale]]), tolerance)


def _sums(structure: Structure, is_element: FloatArray) -> FloatArray:
    positions = structure.positions
    return np.concatenate(
        [
            np.linalg.norm(positions[None] - positions[start : start + ROWS, None], axis=2) @ is_element
            for start in range(0, len(positions), ROWS)
        ]
    )


def _periodic_sums(structure: Structure, is_element: FloatArray) -> FloatArray:
    edges = neighbour_list(structure, REACH, check=False)
    distances = edge_lengths(structure.positions, structure.cell, edges)
    terms = (REACH * (1 - (distances / REACH) ** 2) ** 3, (REACH - distances) ** 2 * distances / REACH)
    count = len(structure)
    # Element by element: many times as fast as adding up rows of a matrix.
    columns = [
        np.bincount(edges.receivers[ends], weights=term[ends], minlength=count)
        for ends in (is_element[edges.senders].T > 0)
        for term in terms
    ]
    return np.stack(columns, axis=1)


def marks(frames: Sequence[Frame]) -> list[Mark]:
    """`mark` of every frame."""
    return [mark(frame.structure) for frame in frames]


def find_duplicates(frames: Sequence[Frame], known: Sequence[Mark] | None = None) -> list[Duplicates]:
    """Groups of equal structures, in the order of their first members.

    Args:
        frames: Structures.
        known: Their marks, if they are known already.

    Example:
        >>> structure = Structure([8, 1], [[0, 0, 0], [0, 0, 0.97]])
        >>> turned = Structure([1, 8], [[0, 0.97, 1], [0, 0, 1]])
        >>> [group.members for group in find_duplicates([Frame(structure, 0.0), Frame(turned, 0.5)])]
        [(0, 1)]
    """
    found = list(known) if known is not None else marks(frames)
    kinds = _by_kind(found)
    groups = [group for members in kinds.values() if len(members) > 1 for group in _equal(members, found)]
    return [_described(group, frames) for group in sorted(groups)]


class _Search:
    """Finds marks of one kind that are near each other.

    Equal structures have nearly equal projections; rounding to a grid instead would split pairs at its edges.
    """

    def __init__(self, values: FloatArray, tolerance: float) -> None:
        self._weights = np.cos(np.arange(values.shape[1], dtype=np.float64))
        projections = values @ self._weights
        self._order = np.argsort(projections, kind="stable")
        self._projections = projections[self._order]
        self._values, self._tolerance = values, tolerance
        self._reach = tolerance * float(np.abs(self._weights).sum())

    def near(self, values: FloatArray) -> list[int]:
        """Indices of the marks that equal this one, in order."""
        middle = float(values @ self._weights)
        first, end = np.searchsorted(self._projections, [middle - self._reach, middle + self._reach])
        candidates = self._order[first:end]
        distance = np.abs(self._values[candidates] - values).max(axis=1, initial=0.0)
        return sorted(candidates[distance < self._tolerance].tolist())


def _by_kind(found: Sequence[Mark]) -> dict[Hashable, list[int]]:
    kinds: dict[Hashable, list[int]] = defaultdict(list)
    for index, item in enumerate(found):
        kinds[item.kind].append(index)
    return kinds


def _search(members: Sequence[int], found: Sequence[Mark]) -> _Search:
    return _Search(np.array([found[index].values for index in members]), found[members[0]].tolerance)


def _equal(members: list[int], found: Sequence[Mark]) -> Iterator[tuple[int, ...]]:
    """Groups among structures of one kind."""
    search = _search(members, found)
    taken: set[int] = set()
    for index in members:
        if index not in taken:
            same = [members[place] for place in search.near(found[index].values) if members[place] not in taken]
            taken.update(same)
            if len(same) > 1:
                yield tuple(same)


def _described(members: tuple[int, ...], frames: Sequence[Frame]) -> Duplicates:
    chosen = [frames[index] for index in members]
    energies = [float(frame.energy) for frame in chosen if frame.energy is not None and frame.has_energy]
    energy = max(energies) - min(energies) if energies else 0.0
    lengths = np.array(
        [
            np.sort(np.linalg.norm(frame.forces, axis=1))
            for frame in chosen
            if frame.forces is not None and np.isfinite(frame.forces).all()
        ]
    )
    force = float(np.ptp(lengths, axis=0).max()) if len(lengths) > 1 else 0.0
    return Duplicates(members, energy if energy > SAME_ENERGY else None, force if force > SAME_FORCE else None)


def shared(first: Sequence[Mark], second: Sequence[Mark]) -> list[tuple[int, int]]:
    """Pairs (index in first, index in second) of equal structures, one for each of the second that has one."""
    kinds = _by_kind(first)
    searches = {kind: _search(members, first) for kind, members in kinds.items()}
    pairs = []
    for index, item in enumerate(second):
        if item.kind in searches and (same := searches[item.kind].near(item.values)):
            pairs.append((kinds[item.kind][same[0]], index))
    return pairs
