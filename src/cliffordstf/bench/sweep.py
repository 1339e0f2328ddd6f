"""A benchmark as a set of jobs: independent, resumable, each with one small result file.

A job is known by its name. It works in `work/NAME` and its result is `results/NAME.json`; a job that has a result is
done, one that has a folder is continued. Any number of processes, on one machine or on many with a common folder, may
work on the same set: a lock on the job keeps two of them off it, and goes when its holder dies.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cliffordstf.errors import ConfigError, DataError
from cliffordstf.files import lock, write_atomically
from cliffordstf.train.run import Watcher


class Job(Protocol):
    """A piece of a benchmark."""

    @property
    def name(self) -> str:
        """Names its folder and its result; safe for a file name."""
        ...

    @property
    def labels(self) -> dict[str, Any]:
        """What it is a result of, for example molecule and number of training frames."""
        ...

    def run(self, directory: Path, watcher: Watcher | None) -> dict[str, Any] | None:
        """Do it, or go on with what the folder holds; the result, or None if a signal stopped it."""
        ...


@dataclass(frozen=True)
class Sweep:
    """Where a set of jobs works and what it leaves.

    Attributes:
        results: Folder of result files.
        work: Folder of the jobs' own folders.
    """

    results: Path
    work: Path

    def result_file(self, job: Job) -> Path:
        """Where the result of a job is, or will be."""
        return self.results / f"{job.name}.json"

    def run(self, jobs: Sequence[Job], say: Callable[[str], None], watcher: Watcher | None = None) -> bool:
        """Run what is not done yet; False if a signal stopped it, which leaves everything ready to go on."""
        for number, job in enumerate(jobs, start=1):
            place = f"{number}/{len(jobs)} {job.name}"
            if self.result_file(job).is_file():
                self._check_result(job)
                say(f"{place}: done before")
                continue
            with lock(self.work / f"{job.name}.lock") as held:
                if not held:
                    say(f"{place}: another process is at it")
                    continue
                say(f"{place}: running")
                found = job.run(self.work / job.name, watcher)
                if found is None:
                    say(f"{place}: stopped; the same command goes on from here")
                    return False
                write_result(self.result_file(job), {**job.labels, **found})
        return True

    def _check_result(self, job: Job) -> None:
        """Refuse to take the result of other options for this job's."""
        found = _read(self.result_file(job))
        if any(found.get(name) != value for name, value in job.labels.items()):
            raise ConfigError(
                f"{self.result_file(job)} is the result of other options than these; remove it, or name the recipe "
                "differently."
            )


def write_result(path: Path, values: dict[str, Any]) -> None:
    """Write a result file, whole or not at all."""
    text = json.dumps(values, indent=1, ensure_ascii=False) + "\n"

    def write(target: Path) -> None:
        target.write_text(text, encoding="utf-8")

    write_atomically(path, write)


def read_results(folder: Path) -> list[dict[str, Any]]:
    """All results of a folder, by name."""
    return [_read(path) for path in sorted(folder.glob("*.json"))]


def file_name(text: str) -> str:
    """Text without what a file name should not hold."""
    return re.sub(r"[^A-Za-z0-9+.]+", "-", text).strip("-")


def _read(path: Path) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not a result file ({error}); remove it and run its job again.") from None
    return values
