"""The folder of a training run: its name, its lock, and the files that are not the model's."""

import csv
import io
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cliffordstf.errors import ConfigError
from cliffordstf.host.files import lock, write_text

CONFIG = "config.yaml"
LOCK = ".lock"


def free_directory(base: Path) -> Path:
    """The folder, or the first of `-2`, `-3`, … that does not exist: nothing is ever overwritten."""
    candidate, number = base, 1
    while candidate.exists():
        number += 1
        candidate = base.with_name(f"{base.name}-{number}")
    return candidate


def has_content(directory: Path) -> bool:
    """Whether a folder holds more than what a run leaves that was killed while it began."""
    return any(not item.name.startswith(".") for item in directory.iterdir())


def replace_run(directory: Path, check_only: bool = False) -> None:
    """Remove the folder of an earlier run, or only look whether it is one.

    Raises:
        ConfigError: It holds something else.
    """
    if not directory.exists():
        return
    if not directory.is_dir() or (has_content(directory) and not (directory / CONFIG).is_file()):
        raise ConfigError(f"{directory} is not the folder of a run (no {CONFIG}), so it is not replaced; name another.")
    with held(directory):
        if not check_only:
            shutil.rmtree(directory)


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Keep other processes from writing to the folder of a run.

    Raises:
        ConfigError: Another process does.
    """
    with lock(directory / LOCK) as is_ours:
        if not is_ours:
            raise ConfigError(f"{directory} is the folder of a run that another process goes on with; stop that first.")
        yield


def write_history(path: Path, rows: list[dict[str, Any]]) -> None:
    """The history as CSV, written whole so that it always agrees with the checkpoint."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, names)
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, stream.getvalue())


def run_name(data: str | list[str]) -> str:
    """A folder name from the name of a data file, or of the first of several."""
    first = data if isinstance(data, str) else data[0]
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(first).name.split(".")[0]).strip("-")
    return stem or time.strftime("run-%Y%m%d-%H%M%S")
