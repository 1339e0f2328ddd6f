"""Energy drift and mean temperature of a run."""

import numpy as np


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
