"""A neighbour list that is made with a margin and reused while no atom has moved far."""

import time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cliffordstf.data.neighbours import NeighbourList, edge_lengths, neighbour_list
from cliffordstf.data.structure import FloatArray, Structure
from cliffordstf.errors import ConfigError

BoolArray: TypeAlias = NDArray[np.bool_]


class SkinList:
    """Neighbours up to `cutoff + skin`, rebuilt only when an atom moved more than half the skin since the last build.

    Two atoms that were farther apart than `cutoff + skin` and moved at most `skin / 2` each are still farther apart
    than `cutoff`, so nothing is ever missed. What `within` returns is filtered to the exact cutoff and keeps the order
    of a fresh list: results do not depend on when the list was built.

    Args:
        cutoff: Å, the largest radius that `within` is asked for.
        skin: Å; 0 builds a new list whenever anything moves.

    Attributes:
        builds: How many lists were built so far.
        seconds: Time spent on building and filtering so far, s.
    """

    def __init__(self, cutoff: float, skin: float = 0.5) -> None:
        if not (np.isfinite(skin) and skin >= 0):
            raise ConfigError(f"skin={skin} must be a length in Å that is not negative, for example 0.5.")
        self.cutoff = cutoff
        self.skin = skin
        self.builds = 0
        self.seconds = 0.0
        self._built_for: Structure | None = None
        self._candidates: NeighbourList | None = None
        self._distances: FloatArray = np.zeros(0)
        self._selected: dict[float, tuple[BoolArray, NeighbourList]] = {}

    def update(self, structure: Structure) -> None:
        """Follow a structure to where it is now, building a new list if the old one may miss something."""
        start = time.perf_counter()
        if self._candidates is None or self._is_outdated(structure):
            # A failed build must not leave a list behind that belongs to another structure.
            self._candidates = None
            self._selected.clear()
            self._candidates = neighbour_list(structure, self.cutoff + self.skin)
            self._built_for = structure
            self.builds += 1
        self._distances = edge_lengths(structure.positions, structure.cell, self._candidates)
        self.seconds += time.perf_counter() - start

    def within(self, cutoff: float) -> NeighbourList:
        """The edges of the last structure up to `cutoff`, Å, sorted as a fresh list would be.

        As long as no pair crosses the cutoff, this is the same object.
        """
        if self._candidates is None:
            raise ConfigError("the neighbour list has seen no structure yet; call update(structure) first.")
        if cutoff > self.cutoff:
            raise ConfigError(f"this neighbour list reaches {self.cutoff} Å, not {cutoff} Å; make one that does.")
        start = time.perf_counter()
        is_near = self._distances < cutoff
        known = self._selected.get(cutoff)
        if known is None or not np.array_equal(known[0], is_near):
            known = self._selected[cutoff] = (is_near, self._candidates.select(is_near))
        self.seconds += time.perf_counter() - start
        return known[1]

    def pairs(self) -> tuple[NeighbourList, FloatArray]:
        """All edges of the list, skin included, and their lengths (Å) at the last structure."""
        if self._candidates is None:
            raise ConfigError("the neighbour list has seen no structure yet; call update(structure) first.")
        return self._candidates, self._distances

    def _is_outdated(self, structure: Structure) -> bool:
        built_for = self._built_for
        if (
            built_for is None
            or not _are_equal(built_for.numbers, structure.numbers)
            or not _are_equal(built_for.cell, structure.cell)
            or not _are_equal(built_for.pbc, structure.pbc)
        ):
            return True
        moved = structure.positions - built_for.positions
        return float(np.einsum("ni,ni->n", moved, moved).max()) > (self.skin / 2) ** 2


def _are_equal(one: NDArray[Any], other: NDArray[Any]) -> bool:
    # The steps of a simulation share these arrays.
    return one is other or np.array_equal(one, other)
