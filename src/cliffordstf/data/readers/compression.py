"""Open a file whatever it is compressed with, judged by its first bytes."""

import bz2
import gzip
import io
import lzma
import re
from mmap import mmap
from pathlib import Path
from typing import IO, Any

from cliffordstf.errors import DataError
from cliffordstf.host.budget import USUAL_BUDGET, Budget, size_of

_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}

BLOCK = 1 << 24

_ARRAY = re.compile(rb'"__ndarray__"\s*:\s*(?:\[|\{)\s*\[([-+\d\s,.eE]*)\]')
"""How ASE writes the shape of an array into JSON."""


def _opener(path: Path) -> Any:
    with path.open("rb") as file:
        start = file.read(6)
    return next((opener for magic, opener in _OPENERS.items() if start.startswith(magic)), open)


def open_text(path: Path, budget: Budget = USUAL_BUDGET) -> IO[str]:
    """The text, decompressed in memory where needed: readers that jump back would decompress it again and again.

    Raises:
        DataError: It is no text in UTF-8, or too large when it is unpacked.
    """
    if _opener(path) is open:
        return path.open(encoding="utf-8")
    return io.StringIO(unpacked(path, budget).decode("utf-8"), newline=None)


def unpacked(path: Path, budget: Budget = USUAL_BUDGET) -> bytes:
    """The whole content, decompressed.

    Raises:
        LimitError: It is too large.
    """
    blocks, size = [], 0
    with _opener(path)(path, "rb") as file:
        while block := file.read(BLOCK):
            blocks.append(block)
            size += len(block)
            budget.unpacked(size, str(path))
    return b"".join(blocks)


def open_bytes(path: Path) -> IO[bytes]:
    """The decompressed bytes as a stream, which can be moved forward without reading what was passed into memory."""
    stream: IO[bytes] = _opener(path)(path, "rb")
    return stream


def is_compressed(path: Path) -> bool:
    """Whether the file must be decompressed."""
    return _opener(path) is not open


def first_bytes(path: Path, count: int) -> bytes:
    """The first decompressed bytes."""
    with _opener(path)(path, "rb") as file:
        return bytes(file.read(count))


def check_arrays(text: bytes | mmap, what: str) -> None:
    """Refuse JSON of ASE whose arrays have shapes of more numbers than there are: ASE makes such an array first.

    Raises:
        DataError: The text announces more than it holds.
    """
    for match in _ARRAY.finditer(text):
        shape = match.group(1).decode().replace(",", " ").split()
        if not all(length.isdigit() for length in shape) or size_of(tuple(map(int, shape)), 1) > len(text):
            raise DataError(
                f"{what} is damaged: it announces an array of shape ({', '.join(shape)[:60]}); copy it again."
            )
