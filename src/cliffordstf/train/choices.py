"""What `auto` stands for: every choice that is made from the data, with its reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cliffordstf.data.bonds import is_one_molecule
from cliffordstf.data.dataset import BatchPlan
from cliffordstf.data.frame import Frame
from cliffordstf.data.shards.stored import has_label, sizes_of
from cliffordstf.train.config import FEW_STRUCTURES, TrainConfig

FEW_CUTOFF = 4.0
"""Å, for few frames of single molecules: what a short cutoff does not see need not be learned (docs/recipe.md)."""
SMALL_MOLECULE, FEW_LAYERS = 12, 3
"""Few frames of molecules of at most so many atoms are learned one at a time, by so many layers (docs/recipe.md)."""
FEW_EPOCHS = 300
"""Epochs for few training structures: what else would be learned is how to repeat them (docs/recipe.md)."""
LARGEST_RATE, SMALLEST_RATE = 5e-3, 1e-3
WAY = 20.0
"""Peak learning rate times the number of steps for few structures: how far weights can go in a run."""
STEPS_BETWEEN_VALIDATIONS = 150


@dataclass(frozen=True)
class Choice:
    """A value that was chosen for an option.

    Attributes:
        option: Its path.
        value: As the option would be written.
        reason: Why, in a few words.
    """

    option: str
    value: Any
    reason: str


def most_epochs(asked: int | Literal["auto"] | None, structures: int) -> int | None:
    """Largest number of epochs, None for no limit."""
    if asked == "auto":
        return FEW_EPOCHS if structures < FEW_STRUCTURES else None
    return asked


def peak_learning_rate(asked: float | Literal["auto"], structures: int, steps: int | None) -> float:
    """Peak of the learning rate.

    Few structures are learned in many small steps, which want a lower one (docs/recipe.md).

    Args:
        asked: In the config.
        structures: In the training set.
        steps: Of the run, if their number is known.
    """
    if asked != "auto":
        return asked
    if structures >= FEW_STRUCTURES or steps is None:
        return LARGEST_RATE
    return min(LARGEST_RATE, max(SMALLEST_RATE, WAY / steps))


def validation_interval(asked: int | Literal["auto"], batches: int) -> int:
    """Epochs between validations."""
    return max(1, -(-STEPS_BETWEEN_VALIDATIONS // batches)) if asked == "auto" else asked


def sample(frames: Sequence[Frame]) -> list[Frame]:
    """At most two hundred of them, evenly spread."""
    return list(frames[:: max(1, len(frames) // 100)])


def are_few_molecules(frames: Sequence[Frame]) -> bool:
    """Whether a training set is small and every structure of it one molecule."""
    return len(frames) < FEW_STRUCTURES and all(is_one_molecule(frame.structure) for frame in sample(frames))


def local_options(options: dict[str, Any], frames: Sequence[Frame]) -> dict[str, Any]:
    """Options of the model for few frames of single molecules, beside those that were asked for.

    Bonds carry what happens between distant atoms of a molecule; between two molecules nothing would.
    """
    name = str(options.get("preset", "default"))
    if not name.startswith("default") or not are_few_molecules(frames):
        return {}
    found: dict[str, Any] = {"cutoff": FEW_CUTOFF}
    if name == "default" and usual_size(sample(frames)) <= SMALL_MOLECULE:
        found["layers"] = FEW_LAYERS
    return {option: value for option, value in found.items() if option not in options}


def usual_size(frames: Sequence[Frame]) -> float:
    """Median number of atoms."""
    return float(np.median(sizes_of(frames)))


def batch_plan(config: TrainConfig, train: Sequence[Frame]) -> BatchPlan:
    """How structures are put into batches."""
    size = config.batch_size
    if size == "auto":
        usual = usual_size(train)
        is_single = usual <= SMALL_MOLECULE and are_few_molecules(train)
        size = 1 if is_single else int(np.clip(round(_atoms_of_a_batch(config, train) / usual), 1, 32))
    return BatchPlan(size, config.max_atoms, config.max_edges)


def _atoms_of_a_batch(config: TrainConfig, train: Sequence[Frame]) -> int:
    if len(train) < FEW_STRUCTURES:
        return 25
    return 100 if config.loss.forces.is_used and has_label(train, "forces") else 300


def run_choices(config: TrainConfig, train: Sequence[Frame], plan: BatchPlan) -> list[Choice]:
    """What `auto` stands for in the options of the run: batch size, length, learning rate, validations."""
    count, few = len(train), len(train) < FEW_STRUCTURES
    amount = f"{count} training structures" + (f", fewer than {FEW_STRUCTURES}" if few else "")
    found: list[Choice] = []
    if config.batch_size == "auto":
        usual = f"structures have {usual_size(train):g} atoms"
        single = plan.size == 1 and are_few_molecules(train) and usual_size(train) <= SMALL_MOLECULE
        target = "few small molecules" if single else f"about {_atoms_of_a_batch(config, train)} atoms in a batch"
        found.append(Choice("batch_size", plan.size, f"{target}; {usual}"))
    batches = -(-count // plan.size)
    epochs = most_epochs(config.epochs, count)
    if config.epochs == "auto":
        reason = amount if few else "no limit: the budget ends the run"
        found.append(Choice("epochs", epochs, reason))
    if config.optimizer.learning_rate == "auto":
        steps = None if epochs is None else epochs * batches
        rate = peak_learning_rate("auto", count, steps)
        found.append(Choice("optimizer.learning_rate", rate, amount + ("" if steps is None else f", {steps:,} steps")))
    if config.validate_every == "auto":
        every = validation_interval("auto", batches)
        found.append(Choice("validate_every", every, f"{batches} steps in an epoch"))
    return found


def model_choices(options: dict[str, Any], train: Sequence[Frame]) -> list[Choice]:
    """The same for the options of the model."""
    chosen = local_options(options, train)
    reason = f"{len(train)} single molecules, fewer than {FEW_STRUCTURES}"
    small = f"; at most {SMALL_MOLECULE} atoms each"
    return [
        Choice(f"model.{name}", value, reason + (small if name == "layers" else "")) for name, value in chosen.items()
    ]
