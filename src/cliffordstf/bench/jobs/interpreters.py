"""Jobs whose model needs a package that this interpreter lacks run in another interpreter that has it.

Packages whose pins contradict each other cannot share an environment. `make peers` makes one for the peers; a job that
needs one of them runs there (`remote_worker`), and its result comes back as that of any other job.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cliffordstf.bench.jobs.launch import STOPPED, on_signals
from cliffordstf.bench.jobs.remote_worker import ANSWER_FILE, JOB_FILE, RemoteJob
from cliffordstf.bench.jobs.sweep import Job, SweepError
from cliffordstf.errors import ConfigError
from cliffordstf.model.family import family_names
from cliffordstf.train.run import Watcher
from cliffordstf.version import __version__
from cliffordstf.zoo import available

PYTHONS = "CLIFFORDSTF_PYTHONS"
"""Environment variable that names further interpreters, separated as PATH is."""

PROJECT = Path(__file__).parents[4]
"""The folder of the project, where this package runs from its source tree."""

USUAL = PROJECT / ".venv-peers" / "bin" / "python"
"""Where `make peers` puts one. Never looked for in the current folder, which may be anybody's."""

_answers: dict[tuple[str, str], str | None] = {}
"""Why an interpreter cannot build a model, None if it can; asking takes seconds."""


def interpreters() -> list[str]:
    """Further interpreters, in the order in which they are asked."""
    named = os.environ.get(PYTHONS)
    if named is not None:
        return [name for name in named.split(os.pathsep) if name]
    # Not resolved: behind the link lies the interpreter without the environment's packages.
    return [str(USUAL)] if (PROJECT / "pyproject.toml").is_file() and USUAL.is_file() else []


def missing(models: Iterable[str]) -> dict[str, str]:
    """Models that neither this interpreter nor another one can build, and why not."""
    reasons = {name: reason for name in models if (reason := _missing_here(name)) is not None}
    for python in interpreters() if reasons else []:
        there = _ask(python, list(reasons))
        reasons = {name: reason for name, reason in reasons.items() if there[name] is not None}
    return reasons


def _missing_here(model: str) -> str | None:
    return available(model) if model in family_names() else None


def interpreter_for(models: Sequence[str]) -> str | None:
    """Another interpreter that can build all of these; None if this one can.

    Raises:
        ConfigError: None of them can.
    """
    reasons = [reason for name in models if (reason := _missing_here(name)) is not None]
    if not reasons:
        return None
    peers = [name for name in models if name in family_names()]
    for python in interpreters():
        if all(reason is None for reason in _ask(python, peers).values()):
            return python
    raise ConfigError(reasons[0])


def _ask(python: str, models: list[str]) -> dict[str, str | None]:
    """What an interpreter says about models."""
    unknown = [name for name in models if (python, name) not in _answers]
    if unknown:
        command = [python, "-m", "cliffordstf.bench.jobs.remote_worker", "models", *unknown]
        try:
            done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=True)
            said = json.loads(done.stdout.splitlines()[-1])
            version, answers = said["version"], said["models"]
        except (OSError, subprocess.CalledProcessError, ValueError, LookupError, TypeError) as error:
            said_why = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            raise ConfigError(
                f"{python} cannot run cliffordstf ({said_why[-1] if said_why else 'it says nothing'}); make it again "
                f"with 'make peers', or set {PYTHONS} to interpreters that can, or to nothing."
            ) from None
        if version != __version__:
            raise ConfigError(
                f"{python} has cliffordstf {version} and this is {__version__}; install the same version there."
            )
        _answers.update({(python, name): answers[name] for name in unknown})
    return {name: _answers[python, name] for name in models}


def _environment() -> dict[str, str]:
    """Ours, with this package first if it is a source tree: another version of it would not be this benchmark.

    An installed package shares its folder with all others, which the other interpreter has in versions of its own.
    """
    source = Path(__file__).parents[3]
    ours = [str(source)] if (source.parent / "pyproject.toml").is_file() else []
    paths = os.pathsep.join([*ours, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        **os.environ,
        **({"PYTHONPATH": paths} if paths else {}),
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
    }


@dataclass(frozen=True)
class PlacedJob:
    """A job that runs in the first interpreter that can build its models.

    Attributes:
        job: Its labels name the models: `model`, or `models`.
    """

    job: Job

    @property
    def name(self) -> str:
        """That of the job."""
        return self.job.name

    @property
    def labels(self) -> dict[str, Any]:
        """Those of the job."""
        return self.job.labels

    def settings(self) -> dict[str, Any]:
        """Those of the job."""
        return self.job.settings()

    def run(self, directory: Path, watcher: Watcher | None) -> dict[str, Any] | None:
        """Do it here, or have it done; the result, or None if a signal stopped it."""
        labels = self.job.labels
        models = labels.get("models") or [name for name in (labels.get("model"),) if name is not None]
        python = interpreter_for(models)
        return self.job.run(directory, watcher) if python is None else _send(python, self.job, directory)


def _send(python: str, job: Job, directory: Path) -> dict[str, Any] | None:
    with tempfile.TemporaryDirectory() as folder:
        remote = RemoteJob(job, directory, sys.argv[1:], torch.get_num_threads())
        Path(folder, JOB_FILE).write_bytes(pickle.dumps(remote))
        process = subprocess.Popen(
            [python, "-m", "cliffordstf.bench.jobs.remote_worker", "run", folder],
            env=_environment(),
            stdin=subprocess.PIPE,  # its end tells the other process that this one is gone
            start_new_session=True,  # a terminal's interrupt comes once, from here
        )
        with process, on_signals(lambda *_: process.terminate()):
            code = process.wait()
        answer = Path(folder, ANSWER_FILE)
        if code in (STOPPED, -signal.SIGTERM):
            return None
        if code or not answer.is_file():
            raise SweepError(f"{python} ended with exit code {code}; what it said stands above.")
        said = json.loads(answer.read_text(encoding="utf-8"))
    if "failed" in said:
        raise SweepError(said["failed"])
    found: dict[str, Any] = said["found"]
    return found
