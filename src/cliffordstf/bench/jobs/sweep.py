"""A benchmark as a set of jobs: independent, resumable, each with one small result file.

A job is known by its name. It works in `work/NAME` and its result is `results/NAME.json`; a job that has a result is
done, one that has a folder is continued. Any number of processes, on one machine or on many with a common folder, may
work on the same set: a lock on the job keeps two of them off it, and goes when its holder dies. A job that fails leaves
the reason in `work/NAME.failed` and the others go on; where nothing of ours gave a reason, it leaves the traceback in
`work/NAME.traceback`.
"""

import json
import re
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from cliffordstf.errors import CliffordSTFError, ConfigError, DataError
from cliffordstf.host.files import holder_name, last_holder, lock, write_json, write_text
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

    def settings(self) -> dict[str, Any]:
        """Options that the `config` of its result repeats; nothing if its labels say everything."""
        ...

    def run(self, directory: Path, watcher: Watcher | None) -> dict[str, Any] | None:
        """Do it, or go on with what the folder holds; the result, or None if a signal stopped it."""
        ...


class SweepError(CliffordSTFError, RuntimeError):
    """Some jobs of a sweep failed."""


@dataclass(frozen=True)
class Outcome:
    """How far a sweep got.

    Attributes:
        is_stopped: Whether a signal stopped it, or it was only submitted; the same command goes on.
        failed: Why jobs failed, by name.
    """

    is_stopped: bool = False
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether all jobs have a result, or another process is at them."""
        return not self.is_stopped and not self.failed

    def check(self, jobs: int) -> None:
        """Say which jobs failed.

        Raises:
            SweepError: There are any.
        """
        if self.failed:
            reasons = " ".join(f"{name}: {reason}" for name, reason in self.failed.items())
            raise SweepError(f"{len(self.failed)} of {jobs} jobs failed, the others did not. {reasons}")


@dataclass(frozen=True)
class Sweep:
    """Where a set of jobs works and what it leaves.

    Attributes:
        results: Folder of result files.
        work: Folder of the jobs' own folders.
        failures_only: Report failures only: there may be thousands of jobs.
        raises: Let the first error of a job end it all, as an error of its own.
    """

    results: Path
    work: Path
    failures_only: bool = False
    raises: bool = False

    def result_file(self, job: Job) -> Path:
        """Where the result of a job is, or will be."""
        return self.results / f"{job.name}.json"

    def run(
        self,
        jobs: Sequence[Job],
        say: Callable[[str], None],
        watcher: Watcher | None = None,
        since: float | None = None,
    ) -> Outcome:
        """Run what is not done yet; a signal stops it and leaves everything ready to go on, a failure does not.

        Args:
            jobs: What to run.
            say: Told one line at a time.
            watcher: Of the runs.
            since: When the sweep began, by this machine's clock: what has failed after that in another process is not
                tried again.
        """
        since = time.time() if since is None else since
        for number, job in enumerate(jobs, start=1):
            place = f"{number}/{len(jobs)} {job.name}"
            told = partial(_tell_failures if self.failures_only else _tell, say, place)
            try:
                is_stopped = not self._run_one(job, told, watcher, since)
            except CliffordSTFError as error:
                if self.raises:
                    raise
                told(f"failed: {error}")
                self.fail(job, str(error))
                continue
            except Exception as error:  # of a peer's code, of the system: the other jobs need not suffer from it
                if self.raises:
                    raise
                reason = self._unexpected(job, error)
                told(f"failed: {reason}")
                self.fail(job, reason)
                continue
            if is_stopped:
                return Outcome(True, self.failures(jobs, since))
        return Outcome(False, self.failures(jobs, since))

    def _run_one(self, job: Job, say: Callable[[str], None], watcher: Watcher | None, since: float) -> bool:
        """False if a signal stopped it."""
        if self.result_file(job).is_file():
            self._check_result(job)
            say("done before")
            return True
        with lock(self._lock(job)) as held:
            if not held:
                say("another process is at it")
                return True
            if self.failures([job], since):
                say("failed in another process")
                return True
            if self.result_file(job).is_file():  # done by another process since it was looked for
                return True
            say("running")
            found = job.run(self.work / job.name, watcher)
            if found is None:
                say("stopped; the same command goes on from here")
                return False
            write_result(self.result_file(job), {**job.labels, **found})
            for file in (self._failure(job), self._traceback(job)):
                file.unlink(missing_ok=True)
        return True

    def _unexpected(self, job: Job, error: Exception) -> str:
        """One sentence about an error that has none of ours; the rest of it goes into a file."""
        file = self._traceback(job)
        write_text(file, "".join(traceback.format_exception(error)))
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[0] if lines else 'no message'} (see {file})"

    def fail(self, job: Job, reason: str) -> None:
        """Note why a job failed, for this and all other processes."""
        write_text(self._failure(job), reason)

    def left_by(self, process: int, jobs: Iterable[Job], since: float) -> "Job | None":
        """The job that a process of this machine, now gone, was at."""
        name = holder_name(process)
        return next(
            (
                job
                for job in jobs
                if last_holder(self._lock(job)) == name
                and not self.result_file(job).is_file()
                and not self.failures([job], since)
            ),
            None,
        )

    def _lock(self, job: Job) -> Path:
        return self.work / f"{job.name}.lock"

    def _traceback(self, job: Job) -> Path:
        return self.work / f"{job.name}.traceback"

    def _failure(self, job: Job) -> Path:
        return self.work / f"{job.name}.failed"

    def failures(self, jobs: Iterable[Job], since: float) -> dict[str, str]:
        """Why jobs failed, by name, of those that did after a time."""
        files = {job.name: self._failure(job) for job in jobs}
        return {
            name: file.read_text(encoding="utf-8")
            for name, file in files.items()
            if file.is_file() and file.stat().st_mtime >= since
        }

    def _check_result(self, job: Job) -> None:
        """Refuse to take the result of other options for this job's; older results do not say everything."""
        found = _read(self.result_file(job))
        is_same = all(found.get(name, value) == value for name, value in job.labels.items())
        if not is_same or not _agree(found.get("config", {}), _as_json(job.settings())):
            raise ConfigError(
                f"{self.result_file(job)} is the result of other options than these; remove it, or name the recipe "
                "differently."
            )


def _agree(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether everything that both of them say is the same."""
    for name in found.keys() & wanted.keys():
        here, there = found[name], wanted[name]
        both = isinstance(here, dict) and isinstance(there, dict)
        if not (_agree(here, there) if both else here == there):
            return False
    return True


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    """What a result file would hold of them: lists for tuples."""
    return dict(json.loads(json.dumps(values)))


def _tell(say: Callable[[str], None], place: str, text: str) -> None:
    say(f"{place}: {text}")


def _tell_failures(say: Callable[[str], None], place: str, text: str) -> None:
    if text.startswith("failed"):
        _tell(say, place, text)


def write_result(path: Path, values: dict[str, Any]) -> None:
    """Write a result file, whole or not at all."""
    write_json(path, values)


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
    return _present_names(values)


def _present_names(value: Any) -> Any:
    """Measures of the baseline were once named `zero_…`."""
    if isinstance(value, dict):
        return {_present_name(key): _present_names(item) for key, item in value.items()}
    return [_present_names(item) for item in value] if isinstance(value, list) else value


def _present_name(key: str) -> str:
    return re.sub(r"^zero_(?=energy|force|stress)", "baseline_", key)
