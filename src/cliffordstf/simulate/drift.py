"""Running averages of a run: energy drift, mean temperature, and means of the box at constant pressure."""

from typing import NamedTuple

import numpy as np
from ase import Atoms

from cliffordstf.simulate.stress import density, pressure


class EnergyLine:
    """Least-squares line through the total energy, from running sums: memory does not grow with the run."""

    def __init__(self) -> None:
        self._first: float | None = None
        self._sums = np.zeros(5)
        self._temperature_sum = 0.0

    def add(self, time: float, energy: float, temperature: float) -> None:
        """Add a point: ps, eV, K."""
        # Sums of differences from the first energy: total energies are millions of times larger than their drift.
        self._first = energy if self._first is None else self._first
        y = energy - self._first
        self._sums += (1.0, time, y, time * time, time * y)
        self._temperature_sum += temperature

    def slope(self) -> float:
        """eV/ps; zero for fewer than two points."""
        n, t, y, tt, ty = self._sums
        spread = n * tt - t * t
        return float((n * ty - t * y) / spread) if n > 1 and spread > 0 else 0.0

    def mean_temperature(self) -> float:
        """K."""
        return self._temperature_sum / max(float(self._sums[0]), 1.0)


class Box(NamedTuple):
    """The state of a periodic box.

    Attributes:
        volume: Å³.
        density: g/cm³.
        pressure: GPa, positive under compression, kinetic part included.
    """

    volume: float
    density: float
    pressure: float

    @classmethod
    def of(cls, atoms: Atoms) -> "Box":
        """The box of atoms whose calculator gives stress."""
        return cls(float(atoms.get_volume()), density(atoms), pressure(atoms))


class BoxMeans:
    """Means over every state that was added, from running sums."""

    def __init__(self) -> None:
        self._count = 0
        self._sums = np.zeros(len(Box._fields))

    def add(self, box: Box) -> None:
        """Add a state."""
        self._count += 1
        self._sums += box

    def means(self) -> Box | None:
        """Mean volume, density and pressure; None if nothing was added."""
        return Box(*(float(total) / self._count for total in self._sums)) if self._count else None
