"""LMDB files: opened for reading only, and what their values are."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb


@contextmanager
def open_lmdb(path: Path) -> Iterator[Any]:
    """A transaction that only reads, of a file or of a folder with data.mdb."""
    environment = lmdb.open(str(path), subdir=path.is_dir(), readonly=True, lock=False, readahead=False, create=False)
    try:
        with environment.begin() as transaction:
            yield transaction
    finally:
        environment.close()


def numbered_keys(transaction: Any) -> list[bytes]:
    """Keys that are whole numbers, in the order of the numbers: as text, 10 would come before 2."""
    keys = (bytes(key) for key in transaction.cursor().iternext(values=False))
    return sorted((key for key in keys if key.isdigit()), key=int)


_sorted: dict[Path, tuple[tuple[int, int], list[bytes]]] = {}
"""Keys of files that were read by number, with time and size of the file: sorting them takes seconds for millions."""
MOST_FILES = 64


def structure_keys(path: Path, transaction: Any) -> list[bytes]:
    """The same, read and sorted once for a file that stays as it is."""
    status = (path / "data.mdb" if path.is_dir() else path).stat()
    stamp = (status.st_mtime_ns, status.st_size)
    if path not in _sorted or _sorted[path][0] != stamp:
        while len(_sorted) >= MOST_FILES:
            _sorted.pop(next(iter(_sorted)))
        _sorted[path] = (stamp, numbered_keys(transaction))
    return _sorted[path][1]


def count(path: Path) -> int:
    """Number of structures."""
    with open_lmdb(path) as transaction:
        return len(structure_keys(path, transaction))


def holds_pickles(path: Path) -> bool:
    """Whether the first numbered value is a pickle, as in OC20 and OC22; ASE-LMDB holds compressed JSON."""
    with open_lmdb(path) as transaction:
        for key, value in transaction.cursor():
            if bytes(key).isdigit():
                return bytes(value[:1]) == b"\x80"
    return False
