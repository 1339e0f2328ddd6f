"""What every update of a run took and gave, kept beside the run so that a restart does not lose it."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from cliffordstf.bench.speed.timing import Timing
from cliffordstf.host.files import opened
from cliffordstf.train.progress import Progress
from cliffordstf.train.run import Silence, Watcher
from cliffordstf.train.setup import Setup

WARM_UP = 10
"""First updates of every sitting that are not timed: kernels are compiled, memory is found, TorchScript optimises."""


@dataclass(frozen=True)
class Step:
    """One update.

    Attributes:
        number: Of the update, from 1 on.
        sitting: Its number since the process was started.
        seconds: Training time up to its end, over all sittings.
        loss: Of its batch.
    """

    number: int
    sitting: int
    seconds: float
    loss: float


class StepRecorder:
    """A watcher that appends a line for each update to a file in the run's folder, and tells another watcher.

    Args:
        listener: Told everything as well; None for nobody.
    """

    def __init__(self, listener: Watcher | None) -> None:
        self._listener = listener or Silence()
        self._path: Path | None = None
        self._sitting = 0
        self.parameters = 0
        self.structures_a_step = 0

    def prepared(self, setup: Setup, directory: Path) -> None:
        """Note the sizes of model and batch."""
        self._path = steps_file(directory)
        self.parameters = sum(parameter.numel() for parameter in setup.potential.parameters())
        self.structures_a_step = setup.plan.size
        self._listener.prepared(setup, directory)

    def step(self, progress: Progress, share: float, loss: float) -> None:
        """Write a line; the clock of the training stands still meanwhile."""
        assert self._path is not None
        self._sitting += 1
        values = (progress.step, self._sitting, progress.seconds, loss)
        with opened(self._path) as stream:
            stream.write(",".join(map(repr, values)) + "\n")
        self._listener.step(progress, share, loss)

    def validated(self, row: dict[str, float | None]) -> None:
        """Hand it on."""
        self._listener.validated(row)


def steps_file(directory: Path) -> Path:
    """Where the updates of the run in a folder are written."""
    return directory / "steps.csv"


def read_steps(directory: Path) -> list[Step]:
    """All updates of a run in their order; of those that a killed process left to be repeated, the repetition."""
    path = steps_file(directory)
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    fields = [line.split(",") for line in lines]
    # A killed process may leave a line without its end.
    whole = [f for f in fields if len(f) == 4 and f[3]]
    steps = [Step(int(f[0]), int(f[1]), float(f[2]), float(f[3])) for f in whole]
    return sorted({step.number: step for step in steps}.values(), key=lambda step: step.number)


def step_times(steps: list[Step]) -> Timing | None:
    """Seconds of every update after the warm-up of its sitting; None if there is none."""
    seconds = tuple(
        after.seconds - before.seconds
        for before, after in pairwise(steps)
        if after.sitting > WARM_UP and after.number == before.number + 1
    )
    return Timing(seconds) if seconds else None


def last_loss(steps: list[Step], count: int) -> float | None:
    """Mean loss of the last updates."""
    last = [step.loss for step in steps[-count:]]
    return sum(last) / len(last) if last else None
