"""What an interpreter does for another one that lacks a package: `python -m cliffordstf.bench.errand`.

`models NAME…` prints which models can be built here, as JSON; `run FOLDER` does the job that `bench.elsewhere` has put
into the folder and leaves its answer there.
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

from cliffordstf.bench.launch import STOPPED
from cliffordstf.bench.progress import Lines
from cliffordstf.bench.sweep import Job, write_text
from cliffordstf.errors import CliffordSTFError
from cliffordstf.version import __version__
from cliffordstf.zoo import available

ERRAND, ANSWER = "errand.pickle", "answer.json"


@dataclass(frozen=True)
class Errand:
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
    """Exit code of the errand."""
    match arguments:
        case ["models", *names]:
            print(json.dumps({"version": __version__, "models": {name: available(name) for name in names}}))
            return 0
        case ["run", folder]:
            threading.Thread(target=_stop_when_left, daemon=True).start()
            return run(Path(folder))
    print("python -m cliffordstf.bench.errand models NAME… | run FOLDER", file=sys.stderr)
    return 2


def run(folder: Path) -> int:
    """Do the job of a folder; what it found, or why it failed, is then there too."""
    # Written by the process that waits for this one, into a folder that nobody else can write.
    errand: Errand = pickle.loads((folder / ERRAND).read_bytes())
    sys.argv[1:] = errand.arguments
    torch.set_num_threads(errand.threads)
    try:
        found = errand.job.run(errand.directory, Lines(lambda text: print(text, flush=True)))
    except CliffordSTFError as error:
        write_text(folder / ANSWER, json.dumps({"failed": str(error)}))
        return 0
    if found is None:
        return STOPPED
    write_text(folder / ANSWER, json.dumps({"found": found}))
    return 0


def _stop_when_left() -> None:
    """Stop, with a checkpoint, when the process that asked is gone: it holds the other end of the input."""
    os.read(0, 1)  # not through sys.stdin, whose lock a thread must not hold when the process ends
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
