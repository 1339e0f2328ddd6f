"""A benchmark as a set of cells: independent training runs, each resumable, each with one small result file.

A cell is known by its name. Its run lives in `work/NAME` and its result in `results/NAME.json`; a cell that has a
result is done, one that has a run is continued. Any number of processes, on one machine or on many with a common
folder, may work on the same set: a lock on the run keeps two of them off one cell, and goes when its holder dies.
"""

import fcntl
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cliffordstf.errors import ConfigError, DataError
from cliffordstf.files import write_atomically
from cliffordstf.train.config import TrainConfig, load_config
from cliffordstf.train.run import RunResult, Watcher, resume, train

CURVE_POINTS = 40
"""Rows of a run's history that its result keeps."""


@dataclass(frozen=True)
class Cell:
    """One run of a benchmark.

    Attributes:
        name: Names its run and its result; safe for a file name.
        labels: What it is a result of, for example molecule and number of training frames.
        config: The run. Its test set is evaluated once, at the end.
    """

    name: str
    labels: dict[str, Any]
    config: TrainConfig


@dataclass(frozen=True)
class Sweep:
    """Where a set of cells works and what it leaves.

    Attributes:
        results: Folder of result files.
        work: Folder of runs.
    """

    results: Path
    work: Path

    def result_file(self, cell: Cell) -> Path:
        """Where the result of a cell is, or will be."""
        return self.results / f"{cell.name}.json"

    def run(self, cells: Sequence[Cell], say: Callable[[str], None], watcher: Watcher | None = None) -> bool:
        """Run what is not done yet; False if a signal stopped it, which leaves everything ready to go on."""
        for number, cell in enumerate(cells, start=1):
            place = f"{number}/{len(cells)} {cell.name}"
            if self.result_file(cell).is_file():
                self._check_result(cell)
                say(f"{place}: done before")
                continue
            with _lock(self.work / f"{cell.name}.lock") as held:
                if not held:
                    say(f"{place}: another process is at it")
                    continue
                say(f"{place}: running")
                result = self._run(cell, watcher)
                if result is None:
                    say(f"{place}: stopped; the same command goes on from here")
                    return False
                write_result(self.result_file(cell), cell, result)
        return True

    def _check_result(self, cell: Cell) -> None:
        """Refuse to take the result of other options for this cell's."""
        found = _read(self.result_file(cell))
        if any(found.get(name) != value for name, value in cell.labels.items()):
            raise ConfigError(
                f"{self.result_file(cell)} is the result of other options than these; remove it, or name the recipe "
                "differently."
            )

    def _run(self, cell: Cell, watcher: Watcher | None) -> RunResult | None:
        directory = self.work / cell.name
        if (directory / "config.yaml").is_file():
            if load_config(directory / "config.yaml", []) != cell.config:
                raise ConfigError(
                    f"{directory} holds a run with other options than these; remove it, or name the recipe differently."
                )
            return resume(directory, watcher)
        return train(cell.config, directory, watcher)


def write_result(path: Path, cell: Cell, result: RunResult) -> None:
    """Result of a finished cell: labels, budget, provenance, config and the metrics of the test set."""
    provenance = result.provenance
    values = {
        **cell.labels,
        "budget": cell.config.budget,
        "seed": cell.config.seed,
        "seconds": provenance["training_seconds"],
        "steps": provenance["steps"],
        "epochs": provenance["epochs"],
        "parameters": provenance["parameters"],
        "command": provenance["command"],
        "commit": provenance["commit"],
        "date": provenance["date"],
        "machine": provenance["machine"],
        "data": provenance["data"],
        "config": _without_folders(cell.config.model_dump(mode="json")),
        "metrics": result.metrics["test"],
        "history": _curve(result.history),
    }
    text = json.dumps(values, indent=1, ensure_ascii=False) + "\n"

    def write(target: Path) -> None:
        target.write_text(text, encoding="utf-8")

    write_atomically(path, write)


def read_results(folder: Path) -> list[dict[str, Any]]:
    """All results of a folder, by name."""
    return [_read(path) for path in sorted(folder.glob("*.json"))]


def _read(path: Path) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not a result file ({error}); remove it and run its cell again.") from None
    return values


def _without_folders(config: dict[str, Any]) -> dict[str, Any]:
    """Files by name only: where they lie on one machine says nothing about the result."""
    data = {name: Path(value).name if _is_path(value) else value for name, value in config["data"].items()}
    return {**config, "data": data}


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and "/" in value


def _curve(history: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Learning curve: evenly picked rows, the last one included."""
    names = ("epoch", "seconds", "train_loss", "valid_energy_mae_mev", "valid_force_mae_mev_per_a")
    step = max(1, -(-len(history) // CURVE_POINTS))
    rows = history[::-1][::step][::-1]
    return [{n: float(f"{row[n]:.5g}") for n in names if isinstance(row.get(n), int | float)} for row in rows]


@contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Hold a lock that the system drops with its process; False if another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
