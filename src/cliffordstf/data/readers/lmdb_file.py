"""LMDB files, read page by page.

The library of LMDB maps a file into memory and follows its pointers: a file that was cut off or damaged kills the
process. Here every page is read by number and checked, so that damage is an error like any other. Only what data sets
use is read: the main tree of 64-bit little-endian files, one value a key.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from cliffordstf.data.readers.paths import MOST_FILES, Stamp, stamp
from cliffordstf.errors import DataError
from cliffordstf.host.budget import USUAL_BUDGET, Budget

_HEADER = struct.Struct("<QHHHH")  # page number, padding, flags, lower and upper bound of free space
_PAGES = struct.Struct("<I")  # number of pages of a large value, in place of the bounds
_NODE = struct.Struct("<HHHH")  # low and high half of a size or page number, flags, size of the key
_META = struct.Struct("<IIQQ")  # magic number, version, address, size of the map
_TREE = struct.Struct("<IHHQQQQQ")  # padding, flags, depth, pages of three kinds, entries, root
_META_END = struct.Struct("<QQ")  # last page, transaction
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF, _OVERFLOW = 1, 2, 4
_LARGE, _SUBTREE, _DUPLICATES = 1, 2, 4
_EMPTY = 2**64 - 1
_DEEPEST = 32


Places = dict[bytes, tuple[int, int]]
"""Where the value of every key is: its first byte and its size."""


class _Tree:
    """The pages of a file.

    Attributes:
        path: Of the file.
        budget: What reading may cost.
    """

    def __init__(self, path: Path, stream: BinaryIO, budget: Budget) -> None:
        self.path, self.budget = path, budget
        self._stream, self._size = stream, os.fstat(stream.fileno()).st_size
        first = self._meta(0)
        self._page_size = first[0]
        if self._page_size not in {2**power for power in range(9, 17)}:
            raise self._damaged(f"its pages have {self._page_size} bytes")
        self._root, self._entries = max((first, self._meta(self._page_size)), key=lambda meta: meta[3])[1:3]

    def _meta(self, start: int) -> tuple[int, int, int, int]:
        """Page size, root, number of entries and transaction of one of the two pages that describe the file."""
        content = self._bytes(start + _HEADER.size, _META.size + 2 * _TREE.size + _META_END.size)
        magic, version, *_ = _META.unpack_from(content)
        if magic != _MAGIC or version != _VERSION:
            raise self._damaged(f"it is not of version {_VERSION} of LMDB")
        page_size = _TREE.unpack_from(content, _META.size)[0]
        *_, entries, root = _TREE.unpack_from(content, _META.size + _TREE.size)
        return page_size, root, entries, _META_END.unpack_from(content, _META.size + 2 * _TREE.size)[1]

    def places(self) -> Places:
        """Of all entries."""
        check_time = self.budget.clock(str(self.path))
        places: Places = {}
        waiting = [] if self._root == _EMPTY else [(self._root, 0)]
        visited: set[int] = set()
        while waiting:
            check_time()
            number, depth = waiting.pop()
            if number in visited or depth > _DEEPEST:
                raise self._damaged(f"page {number} is its own ancestor")
            visited.add(number)
            page, flags, nodes = self._page(number)
            if flags & _BRANCH:
                children = [low | high << 16 | bits << 32 for _, low, high, bits, _ in nodes]
                waiting.extend((child, depth + 1) for child in reversed(children))
            else:
                self._add_leaf(places, number, page, nodes)
        if len(places) != self._entries:
            raise self._damaged(f"it states {self._entries} entries and holds {len(places)}")
        return places

    def _add_leaf(
        self,
        places: Places,
        number: int,
        page: bytes,
        nodes: list[tuple[int, int, int, int, int]],
    ) -> None:
        for start, low, high, flags, key_size in nodes:
            size, begin = low | high << 16, start + _NODE.size + key_size
            if flags & (_SUBTREE | _DUPLICATES):
                raise DataError(f"{self.path} holds databases inside a database, which data sets do not; unpack it.")
            if begin + (8 if flags & _LARGE else size) > len(page):
                raise self._damaged(f"an entry leads out of page {number}")
            key = page[start + _NODE.size : begin]
            if key in places:
                raise self._damaged(f"the key {key!r:.40} stands there twice")
            if flags & _LARGE:
                places[key] = self._large(int.from_bytes(page[begin : begin + 8], "little"), size)
            else:
                places[key] = (number * self._page_size + begin, size)

    def _page(self, number: int) -> tuple[bytes, int, list[tuple[int, int, int, int, int]]]:
        """A page of the tree: its bytes, its flags, and of each node the start and the four numbers."""
        page = self._bytes(number * self._page_size, self._page_size)
        stated, _, flags, lower, _ = _HEADER.unpack_from(page)
        if stated != number or flags & (_BRANCH | _LEAF) not in (_BRANCH, _LEAF) or flags & _OVERFLOW:
            raise self._damaged(f"page {number} is none of the tree")
        if not _HEADER.size <= lower <= self._page_size:
            raise self._damaged(f"page {number} states an impossible number of entries")
        count = (lower - _HEADER.size) // 2
        starts = struct.unpack_from(f"<{count}H", page, _HEADER.size)
        if any(start + _NODE.size > len(page) for start in starts):
            raise self._damaged(f"an entry leads out of page {number}")
        return page, flags, [(start, *_NODE.unpack_from(page, start)) for start in starts]

    def _large(self, number: int, size: int) -> tuple[int, int]:
        """Place of a value that has pages of its own."""
        start = number * self._page_size
        header = self._bytes(start, _HEADER.size)
        stated, _, flags, *_ = _HEADER.unpack(header)
        room = _PAGES.unpack_from(header, 12)[0] * self._page_size - _HEADER.size
        if stated != number or flags & (_BRANCH | _LEAF | _OVERFLOW) != _OVERFLOW or size > room:
            raise self._damaged(f"page {number} does not hold the value that is said to be there")
        if start + _HEADER.size + size > self._size:
            raise self._damaged("a value lies behind its end")
        return start + _HEADER.size, size

    def _bytes(self, start: int, size: int) -> bytes:
        if start + size > self._size:
            raise self._damaged(f"it has {self._size} bytes and refers to byte {start + size}")
        self._stream.seek(start)
        return self._stream.read(size)

    def _damaged(self, reason: str) -> DataError:
        return DataError(f"{self.path} is damaged or was cut off: {reason}; copy it again.")


@dataclass(frozen=True)
class LmdbFile:
    """The entries of a file.

    Attributes:
        stream: The file.
        places: Of all entries.
        numbers: Keys that are whole numbers, in the order of the numbers: as text, 10 would come before 2.
    """

    stream: BinaryIO
    places: Places
    numbers: list[bytes]

    def keys(self) -> list[bytes]:
        """All keys, in the file's order."""
        return list(self.places)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None if there is none."""
        place = self.places.get(key)
        return None if place is None else self._bytes(*place)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values, in the file's order."""
        return ((key, self._bytes(*place)) for key, place in self.places.items())

    def _bytes(self, start: int, size: int) -> bytes:
        self.stream.seek(start)
        return self.stream.read(size)


@contextmanager
def open_lmdb(path: Path, budget: Budget = USUAL_BUDGET) -> Iterator[LmdbFile]:
    """The entries of a file, or of a folder with data.mdb."""
    file = path / "data.mdb" if path.is_dir() else path
    with file.open("rb") as stream:
        yield LmdbFile(stream, *_index(file, stamp(file), budget))


@lru_cache(maxsize=MOST_FILES)
def _index(file: Path, _stamp: Stamp, budget: Budget) -> tuple[Places, list[bytes]]:
    """Places and sorted numbers, kept while the file stays as it is: walking its pages takes seconds for millions."""
    with file.open("rb") as stream:
        places = _Tree(file, stream, budget).places()
    return places, sorted((key for key in places if key.isdigit()), key=int)


def count(path: Path, budget: Budget = USUAL_BUDGET) -> int:
    """Number of structures."""
    with open_lmdb(path, budget) as entries:
        return len(entries.numbers)


def holds_pickles(path: Path) -> bool:
    """Whether the values of a file are pickles."""
    with open_lmdb(path) as entries:
        return next((value[:1] == b"\x80" for key, value in entries.items() if key.isdigit()), False)
