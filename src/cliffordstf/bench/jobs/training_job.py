"""A training run as a job of a benchmark."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cliffordstf.data.dataset import BatchPlan, Dataset
from cliffordstf.data.duplicates import marks, shared
from cliffordstf.data.load import load_frames
from cliffordstf.data.structure import element_numbers
from cliffordstf.errors import ConfigError
from cliffordstf.train.checkpoint import model_options
from cliffordstf.train.config import TrainConfig, load_run_config
from cliffordstf.train.evaluate import evaluate
from cliffordstf.train.metrics import compute_metrics
from cliffordstf.train.progress import DivergedError
from cliffordstf.train.provenance import describe_run
from cliffordstf.train.run import RunResult, Watcher, resume, train

CURVE_POINTS = 40
"""Rows of a run's history that its result keeps."""

SCAN = 100
"""Test sets of at most so many structures keep their energies in the result."""


@dataclass(frozen=True)
class TrainingJob:
    """One training run of a benchmark.

    Attributes:
        name: Names its run and its result; safe for a file name.
        labels: What it is a result of, for example molecule and number of training frames.
        config: The run. Its test set is evaluated once, at the end.
        tests: Files of further test sets by name, evaluated with it.
        held_out: What the run's own test set is called beside these, if it belongs there.
        judged_by: Which of the run's own sets its metrics are of.
    """

    name: str
    labels: dict[str, Any]
    config: TrainConfig
    tests: dict[str, Path] = field(default_factory=dict)
    held_out: str | None = None
    judged_by: Literal["test", "validation"] = "test"

    def settings(self) -> dict[str, Any]:
        """Options of the run, files by name only: where they lie on one machine says nothing about the result."""
        config = self.config.model_dump(mode="json")
        data = {name: Path(value).name if _is_path(value) else value for name, value in config["data"].items()}
        return {**config, "data": data}

    def run(self, directory: Path, watcher: Watcher | None) -> dict[str, Any] | None:
        """Train, or go on training; the result, or None if a signal stopped it. A run that diverges is a result."""
        if not self.config.data.judge_test and (self.judged_by == "test" or self.held_out is not None):
            raise ConfigError("data.judge_test=false leaves this study without its test set; leave the option out.")
        try:
            result = self._train(directory, watcher)
        except DivergedError as error:
            return self._diverged(error)
        return None if result is None else self._result(result)

    def _train(self, directory: Path, watcher: Watcher | None) -> RunResult | None:
        config = self._complete_config()
        if (directory / "config.yaml").is_file():
            if load_run_config(directory) != config:
                raise ConfigError(
                    f"{directory} holds a run with other options than these; remove it, or name the recipe differently."
                )
            return resume(directory, watcher)
        return train(config, directory, watcher)

    def _complete_config(self) -> TrainConfig:
        """The run, with the elements of the further test sets: at their evaluation it would be too late for them."""
        if not self.tests:
            return self.config
        numbers: set[int] = set()
        for file in self.tests.values():  # one after the other: official splits hold a million structures each
            for frame in load_frames(str(file), self.config.data).frames:
                numbers.update(np.unique(frame.structure.numbers).tolist())
        asked = self.config.model.get("elements")
        elements = sorted(numbers | set(element_numbers(asked) if asked else ()))
        return self.config.model_copy(update={"model": {**self.config.model, "elements": elements}})

    def _result(self, result: RunResult) -> dict[str, Any]:
        """Budget, provenance, config and the metrics of the test sets."""
        provenance = result.provenance
        own = {} if self.held_out is None else {self.held_out: result.metrics["test"]}
        return {
            "budget": self.config.budget,
            "seed": self.config.seed,
            "seconds": provenance["training_seconds"],
            "steps": provenance["steps"],
            "epochs": provenance["epochs"],
            "passes": provenance["passes"],
            "parameters": provenance["parameters"],
            "command": provenance["command"],
            "commit": provenance["commit"],
            "date": provenance["date"],
            "machine": provenance["machine"],
            "data": provenance["data"],
            "structures": provenance["structures"],
            "config": self.settings(),
            "model_options": model_options(result.potential),
            "metrics": result.metrics.get(self.judged_by, {}),
            "tests": own | {name: self._evaluate(result, file) for name, file in self.tests.items()},
            "history": curve(result.history),
        }

    def _diverged(self, error: DivergedError) -> dict[str, Any]:
        """Budget, provenance and config of a run that came to no end, and what happened."""
        return {
            "budget": self.config.budget,
            "seed": self.config.seed,
            **describe_run(),
            "config": self.settings(),
            "diverged": error.what,
            "metrics": {},
            "tests": {},
            "history": [],
        }

    def _evaluate(self, result: RunResult, file: Path) -> dict[str, Any]:
        """Errors on a further test set; energies themselves too if it is small, as scans are."""
        frames = load_frames(str(file), self.config.data).frames
        dataset = Dataset(frames, result.potential.cutoff)
        evaluation = evaluate(result.potential, dataset, BatchPlan(32, 2000), result.baseline)
        seen = len(shared(result.learned, marks(frames)))
        metrics = {**compute_metrics(evaluation), "n_also_in_training": seen}
        if len(frames) > SCAN:
            return metrics
        names = {"energy_ev": evaluation.energy, "energy_label_ev": evaluation.energy_label}
        return {**metrics, **{name: [round(float(value), 6) for value in values] for name, values in names.items()}}


def divided(tests: Mapping[str, Path | float]) -> tuple[dict[str, Path], str | None, float]:
    """Files of test sets by name, and name and size of the one that is a share of the training data, if there is one.

    Raises:
        ConfigError: There are several of the latter.
    """
    files = {name: test for name, test in tests.items() if isinstance(test, Path)}
    shares = {name: test for name, test in tests.items() if not isinstance(test, Path)}
    if len(shares) > 1:
        raise ConfigError(f"only one test set can be a share of the training data, not {', '.join(shares)}.")
    return files, next(iter(shares), None), next(iter(shares.values()), 0.0)


def length_name(config: TrainConfig) -> str:
    """How long a run is, for its name: `10min` (also if 600s was asked for), `600steps`, `9passes`."""
    if config.budget is not None:
        return duration_name(config.budget)
    return f"{config.epochs}passes" if config.steps is None else f"{config.steps}steps"


def duration_name(seconds: float) -> str:
    """A time, for the name of a job."""
    return f"{seconds / 60:g}min" if seconds >= 60 else f"{seconds:g}s"


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and "/" in value


def curve(history: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Learning curve: evenly picked rows, the last one included."""
    errors = ("valid_energy_mae_mev", "valid_force_mae_mev_per_a", "valid_force_cosine")
    names = ("epoch", "step", "seconds", "train_loss", *errors)
    step = max(1, -(-len(history) // CURVE_POINTS))
    rows = history[::-1][::step][::-1]
    return [{n: _rounded(row[n]) for n in names if isinstance(row.get(n), int | float)} for row in rows]


def _rounded(value: float) -> float:
    """Five digits; counts stay as they are."""
    return value if isinstance(value, int) else float(f"{value:.5g}")
