"""Names in the order people expect."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

Stamp = tuple[int, int, int]
MOST_FILES = 64
"""Files that are read structure by structure and of which checks and indices are kept."""


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Sort key under which `data_2` comes before `data_10`.

    >>> sorted(["data_10", "data_2"], key=natural_key)
    ['data_2', 'data_10']
    """
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Names of files; those of the same name in different folders are told apart by their folders.

    >>> distinct_names([Path("a/train.xyz"), Path("b/train.xyz"), Path("b/test.xyz")])
    ['a/train.xyz', 'b/train.xyz', 'test.xyz']
    """
    names = [path.name or path.resolve().name for path in paths]
    counts = Counter(names)
    return [
        f"{path.resolve().parent.name}/{name}" if counts[name] > 1 else name
        for path, name in zip(paths, names, strict=True)
    ]


def stamp(path: Path) -> Stamp:
    """Time, size and number of a file, by which one that has changed since it was checked is known."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino
