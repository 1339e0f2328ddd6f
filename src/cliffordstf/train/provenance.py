"""Where a result comes from: command, commit, versions, machine."""

import hashlib
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from cliffordstf.version import __version__

PACKAGE = Path(__file__).parents[1]


def commit(root: Path = PACKAGE) -> str | None:
    """Commit of the source tree this package runs from, with `+` if there are changes; None outside a checkout."""
    try:
        found = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
        changes = subprocess.run(
            ["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no", "."],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return found + ("+" if changes else "")


def processor() -> str:
    """Name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def describe_machine() -> dict[str, Any]:
    """Processor, threads, accelerator and versions."""
    return {
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cliffordstf": __version__,
    }


def command_line(arguments: Sequence[str]) -> str:
    """What was typed; paths from outside by their last part: files that are passed on tell of nobody's folders."""
    return shlex.join(["cliffordstf", *(_OUTSIDE.sub(r"\1\2", argument) for argument in arguments)])


_OUTSIDE = re.compile(r"(^|=)(?:/|\.\./)(?:[^/=]+/)*([^/=]+)/?$")
"""A path from the root or from a folder above, alone or behind a key."""


def describe_run() -> dict[str, Any]:
    """Command, commit, time and machine."""
    return {
        "command": command_line(sys.argv[1:]),
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
    }


def file_digest(path: Path) -> str | None:
    """SHA-256 of a file; None for a folder or a pattern."""
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
