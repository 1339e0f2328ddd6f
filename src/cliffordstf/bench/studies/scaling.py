"""Ten times as many parameters: what a step costs and what it teaches, at an equal number of steps."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cliffordstf.bench.jobs.interpreters import missing
from cliffordstf.bench.jobs.protocols import protocol_options
from cliffordstf.bench.jobs.step_log import WARM_UP, StepRecorder, last_loss, read_steps, step_times
from cliffordstf.bench.jobs.sweep import file_name
from cliffordstf.bench.jobs.training_job import TrainingJob, curve, duration_name
from cliffordstf.bench.speed.peak_memory import MemoryGrowth
from cliffordstf.errors import ConfigError
from cliffordstf.train.config import TrainConfig, load_config
from cliffordstf.train.progress import DivergedError, Progress
from cliffordstf.train.run import RunResult, Silence, Watcher, train

FAMILIES: dict[str, tuple[str, str]] = {
    "default": ("default/1m", "default/10m"),
    "CliffordSTF": ("paper/full", "paper/full-10m"),
    "Clifford": ("paper/clifford", "paper/clifford-10m"),
    "MACE": ("mace-l2", "mace-l2-10m"),
    "EquiformerV2": ("equiformer-l2", "equiformer-l2-10m"),
}
"""About 10^6 and 10^7 parameters of each family: ours, and the four of the paper's scaling check."""

MARKS = 6
"""Validations on the way, evenly spaced; the last one is at the end."""

LAST = 20
"""Updates at the end whose mean loss is reported: one batch of a few structures says little."""

MEMORY_STEPS = 3
"""Updates after which a process has grown as much as it will: gradients and the optimiser's state are there."""

UNITS = {
    "step_seconds": "s",
    "peak_memory_mb": "MB",
    "last_loss": "of train's loss, in units of the root mean square force of the training set",
}


@dataclass(frozen=True)
class ScalingJob(TrainingJob):
    """A run of a fixed number of updates, with the time, memory and loss of its updates."""

    def run(self, directory: Path, watcher: Watcher | None) -> dict[str, Any] | None:
        """Train, or go on training; the result, or None if a signal stopped it. A run that diverges is a result."""
        recorder = StepRecorder(watcher)
        try:
            run = self._train(directory, recorder)
        except DivergedError as error:
            found = {**self._diverged(error), "parameters": recorder.parameters, "validation": None}
        else:
            if run is None:
                return None
            found = self._finished(run)
        steps = read_steps(directory)
        times = step_times(steps)
        return {
            **found,
            "units": UNITS,
            "structures_a_step": recorder.structures_a_step,
            "step_seconds": None if times is None else times.median,
            "step_quartiles": None if times is None else list(times.quartiles),
            "timed_steps": 0 if times is None else len(times.seconds),
            "peak_memory_mb": peak_memory_of_training(self.config),
            "last_loss": last_loss(steps, LAST),
        }

    def _finished(self, run: RunResult) -> dict[str, Any]:
        """What every run of a benchmark reports, with the errors after the last update in place of a test."""
        found = self._result(run)
        metrics = run.metrics.get("validation", {})
        validation = {name: value for name, value in metrics.items() if name.startswith("baseline_")}
        # The last weights and not the best ones: the runs are compared at equal steps.
        validation |= {
            name.removeprefix("valid_"): value for name, value in run.history[-1].items() if name.startswith("valid_")
        }
        kept = {name: value for name, value in found.items() if name not in ("metrics", "tests")}
        marks = [row for row in run.history if is_mark(row["step"], self.labels["budget_steps"])]
        return {**kept, "history": curve(marks), "diverged": None, "validation": validation}


def is_mark(step: int, steps: int) -> bool:
    """Whether every run of so many steps validates after this one, if it gets there."""
    return step % _between(steps) == 0 or step == steps


def _between(steps: int) -> int:
    return max(1, steps // MARKS)


def scaling_job(
    data: str,
    *,
    steps: int = 300,
    budget: str | None = None,
    seed: int = 0,
    model: str = "default/1m",
    overrides: Sequence[str] = (),
    label: str | None = None,
) -> ScalingJob:
    """One run of protocol `sound`, ended after some updates, or within them after some time.

    Args:
        data: File, folder or pattern of labelled structures; a twentieth of them validates, the same for all runs.
        steps: Updates.
        budget: Training time at most, such as `2min`. Runs that it cuts learn as fast as the others up to there.
        seed: Of weights and of the order of structures.
        model: Preset, or name of a peer.
        overrides: Further options of the run, as `train` takes them.
        label: What the table calls these options, behind the model's name.
    """
    if steps <= WARM_UP:
        raise ConfigError(f"--steps {steps} must be more than {WARM_UP}: so many are warm-up and not timed.")
    options = [
        f"data.train={data}",
        f"seed={seed}",
        f"model.preset={model}",
        "epochs=null",
        f"steps={steps}",
        f"cut_after={budget or 'null'}",
        f"validate_steps={_between(steps)}",
        *protocol_options("sound", "scaling", model),
        *overrides,
    ]
    config = load_config(None, options)
    recipe = model if label is None else f"{model} {label}"
    labels = {
        "benchmark": "scaling",
        "frames": Path(data).name,
        "budget_steps": steps,
        "cut_after": config.cut_after,
        "model": model,
        "recipe": recipe,
        "overrides": list(overrides),
    }
    at_most = "" if config.cut_after is None else f"-{duration_name(config.cut_after)}"
    name = f"scaling-{file_name(Path(data).stem)}-{file_name(recipe)}-{steps}steps{at_most}-seed{seed}"
    return ScalingJob(name, labels, config)


def models_here() -> tuple[list[str], dict[str, str]]:
    """Models of the check that some interpreter can build, and why the others cannot be."""
    names = [name for pair in FAMILIES.values() for name in pair]
    reasons = missing(names)
    return [name for name in names if name not in reasons], reasons


def peak_memory_of_training(config: TrainConfig) -> float | None:
    """MB by which a process grows when it reads the data, builds the model and trains; None where nobody says.

    A process of its own: memory that other runs have freed would hide what this one needs.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure_memory, config).result()


class _EnoughError(Exception):
    """Ends a run from its watcher."""


class _UntilEnough(Silence):
    def step(self, progress: Progress, share: float, loss: float) -> None:  # noqa: ARG002 - as a watcher's
        if progress.step >= MEMORY_STEPS:
            raise _EnoughError


def measure_memory(config: TrainConfig) -> float | None:
    """MB by which this process grows during the first updates of a run."""
    growth = MemoryGrowth()
    if not growth.is_known:
        return None
    with TemporaryDirectory() as folder, suppress(_EnoughError, DivergedError):
        train(config.model_copy(update={"cut_after": None}), Path(folder) / "run", _UntilEnough())
    return growth.peak()
