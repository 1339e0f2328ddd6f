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


def holds_pickles(path: Path) -> bool:
    """Whether the first numbered value is a pickle, as in OC20 and OC22; ASE-LMDB holds compressed JSON."""
    with open_lmdb(path) as transaction:
        for key, value in transaction.cursor():
            if bytes(key).isdigit():
                return bytes(value[:1]) == b"\x80"
    return False
