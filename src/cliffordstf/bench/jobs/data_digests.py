"""Which data a result is of: files of one name lie in many folders."""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from cliffordstf.data.readers import qm9pack
from cliffordstf.data.readers.detect import expand
from cliffordstf.train.provenance import file_digest

_NO_DATA = re.compile(r"^\.|lock(\.mdb)?$|\.(cache|md|txt)$", re.IGNORECASE)
"""Names of files that come and go in the folder of a data set without being part of it."""


def data_digest(path: Path) -> str:
    """The beginning of a SHA-256 of the contents of all files that a path stands for; of folders see below."""
    return _digest(file_digest(item) or _listing(item) for item in expand(path))


def listing_digest(path: Path) -> str | None:
    """The same of their names and sizes, for sets that are too large to read for it; None for an installed package."""
    return None if str(path) == qm9pack.ADDRESS else _digest(_listing(item) for item in expand(path))


def _listing(item: Path) -> str:
    """Names and sizes of a file, or of all files of a folder that is one data set."""
    inside = (file for file in sorted(item.rglob("*")) if file.is_file() and not _NO_DATA.search(file.name))
    files = inside if item.is_dir() else filter(Path.is_file, [item])
    return "\n".join(f"{file.name} {file.stat().st_size}" for file in files) or item.name


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
