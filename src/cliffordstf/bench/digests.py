"""Which data a result is of: files of one name lie in many folders."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from cliffordstf.data.readers import qm9pack
from cliffordstf.data.readers.detect import expand
from cliffordstf.provenance import file_digest


def data_digest(path: Path) -> str:
    """The beginning of a SHA-256 of the contents of all files that a path stands for."""
    return _digest(file_digest(file) or file.name for file in expand(path))


def listing_digest(path: Path) -> str | None:
    """The same of their names and sizes, for sets that are too large to read for it; None for an installed package."""
    if str(path) == qm9pack.ADDRESS:
        return None
    files = (file for item in expand(path) for file in ([item] if item.is_file() else item.rglob("*")))
    return _digest(f"{file.name} {file.stat().st_size}" for file in sorted(files) if file.is_file())


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
