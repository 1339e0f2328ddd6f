"""The worker process in another interpreter: `python -m cliffordstf.bench.jobs.remote_worker`.

`models NAME…` prints which models can be built there, as JSON; `run FOLDER` runs the job that `bench.jobs.interpreters`
has put into the folder and leaves the answer there.
"""

import json
import os
import pickle
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import torch

from cliffordstf.bench.jobs.launch import STOPPED
from cliffordstf.bench.jobs.progress_lines import ProgressLines
from cliffordstf.bench.jobs.sweep import Job
from cliffordstf.errors import CliffordSTFError
from cliffordstf.host.files import write_text
from cliffordstf.version import __version__
from cliffordstf.zoo import available

JOB_FILE, ANSWER_FILE = "job.pickle", "answer.json"


@dataclass(frozen=True)
class RemoteJob:
    """A job for another interpreter.

    Attributes:
        job: What to do.
        directory: The job's own folder.
        arguments: Command line of who asked, for the result.
        threads: Of PyTorch.
    """

    job: Job
    directory: Path
    arguments: list[str]
    threads: int


def main(arguments: list[str]) -> int:
    """Exit code of a command of the worker."""
    match arguments:
        case ["models", *names]:
            print(json.dumps({"version": __version__, "models": {name: available(name) for name in names}}))
            return 0
        case ["run", folder]:
            threading.Thread(target=_stop_when_left, daemon=True).start()
            return run(Path(folder))
    print("python -m cliffordstf.bench.jobs.remote_worker models NAME… | run FOLDER", file=sys.stderr)
    return 2


def run(folder: Path) -> int:
    """Do the job of a folder; what it found, or why it failed, is then there too."""
    # Written by the process that waits for this one, into a folder that nobody else can write.
    remote: RemoteJob = pickle.loads((folder / JOB_FILE).read_bytes())
    sys.argv[1:] = remote.arguments
    torch.set_num_threads(remote.threads)
    try:
        found = remote.job.run(remote.directory, ProgressLines(lambda text: print(text, flush=True)))
    except CliffordSTFError as error:
        write_text(folder / ANSWER_FILE, json.dumps({"failed": str(error)}))
        return 0
    if found is None:
        return STOPPED
    write_text(folder / ANSWER_FILE, json.dumps({"found": found}))
    return 0


def _stop_when_left() -> None:
    """Stop, with a checkpoint, when the process that asked is gone: it holds the other end of the input."""
    os.read(0, 1)  # not through sys.stdin, whose lock a thread must not hold when the process ends
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
