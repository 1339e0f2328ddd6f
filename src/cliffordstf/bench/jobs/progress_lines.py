"""Progress of a run in lines of text, for processes that share a terminal."""

import time
from collections.abc import Callable
from pathlib import Path

from cliffordstf.train.progress import Progress
from cliffordstf.train.setup import Setup


class ProgressLines:
    """A watcher that says a line now and then, with the name of the run's folder in front.

    Args:
        say: Told one line at a time.
        every: Seconds between two lines.
    """

    def __init__(self, say: Callable[[str], None], every: float = 30.0) -> None:
        self.say, self.every = say, every
        self._name = ""
        self._said = time.monotonic()
        self._errors = ""

    def prepared(self, setup: Setup, directory: Path) -> None:
        """Say what is trained."""
        self._name, self._errors = directory.name, ""
        parameters = sum(parameter.numel() for parameter in setup.potential.parameters())
        self.say(f"{self._name}: {parameters:,} parameters, {len(setup.train)} structures, in {directory}")

    def step(self, progress: Progress, share: float, loss: float) -> None:
        """Say how far it is, if it is time."""
        if time.monotonic() - self._said < self.every:
            return
        self._said = time.monotonic()
        left = progress.seconds * (1 - share) / share / 60 if share > 0 else 0.0
        self.say(f"{self._name}: {share:.0%}, {left:.1f} min left, loss {loss:.3g}{self._errors}")

    def validated(self, row: dict[str, float | None]) -> None:
        """Remember the last errors."""
        named = ((row.get("valid_energy_mae_mev"), "meV"), (row.get("valid_force_mae_mev_per_a"), "meV/Å"))
        self._errors = "".join(f", {value:.4g} {unit}" for value, unit in named if value is not None)
