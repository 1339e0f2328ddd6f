"""Open a file whatever it is compressed with, judged by its first bytes."""

import bz2
import gzip
import io
import lzma
from pathlib import Path
from typing import IO, Any

_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}

EVERYTHING = -1


def _opener(path: Path) -> Any:
    with path.open("rb") as file:
        start = file.read(6)
    return next((opener for magic, opener in _OPENERS.items() if start.startswith(magic)), open)


def open_text(path: Path) -> IO[str]:
    """The text, decompressed in memory where needed: readers that jump back would decompress it again and again."""
    opener = _opener(path)
    if opener is open:
        return path.open(encoding="utf-8")
    with opener(path, "rt", encoding="utf-8") as file:
        return io.StringIO(file.read())


def open_bytes(path: Path) -> IO[bytes]:
    """The decompressed bytes as a stream, which can be moved forward without reading what was passed into memory."""
    stream: IO[bytes] = _opener(path)(path, "rb")
    return stream


def is_compressed(path: Path) -> bool:
    """Whether the file must be decompressed."""
    return _opener(path) is not open


def first_bytes(path: Path, count: int) -> bytes:
    """The first decompressed bytes, or EVERYTHING."""
    with _opener(path)(path, "rb") as file:
        return bytes(file.read(count))
