"""Where a training run is, and what it tells the outside."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cliffordstf.errors import CliffordSTFError


class DivergedError(CliffordSTFError, RuntimeError):
    """The loss is no longer a number.

    Attributes:
        what: What happened, and at which step.
        checkpoint: Where earlier weights are, if the run got so far.
    """

    def __init__(self, what: str, checkpoint: Path) -> None:
        kept = f"the last checkpoint is {checkpoint}" if checkpoint.is_file() else "there was no checkpoint yet"
        super().__init__(
            f"{what}; lower optimizer.learning_rate or look for outliers with 'cliffordstf data inspect'; {kept}."
        )
        self.what, self.checkpoint = what, checkpoint

    def __reduce__(self) -> tuple[type["DivergedError"], tuple[str, Path]]:
        """For other processes, which it may have to be told to."""
        return type(self), (self.what, self.checkpoint)


@dataclass
class Progress:
    """Where a run is; all of it goes into checkpoints.

    Attributes:
        epoch: Passes finished.
        batch: Batches finished of the current pass.
        step: Updates done.
        seconds: Training time, over all sittings.
        best: Best validation score, and at which epoch.
        waited: Validations since then.
        learning_rate: Of the last update.
        loss_sum, loss_count: Of the current pass.
        history: One row per validation.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    seconds: float = 0.0
    best: float = float("inf")
    best_epoch: int = 0
    waited: int = 0
    learning_rate: float = 0.0
    loss_sum: float = 0.0
    loss_count: int = 0
    history: list[dict[str, float | None]] = field(default_factory=list)


@dataclass(frozen=True)
class Hooks:
    """What the loop tells the outside.

    Attributes:
        step: Called after every update with the progress, the share of the run done and the loss.
        validated: Called after every validation with the new row of the history.
        best: Called with the weight average in place whenever validation is the best so far.
    """

    step: Callable[[Progress, float, float], None]
    validated: Callable[[dict[str, float | None]], None]
    best: Callable[[], None]
