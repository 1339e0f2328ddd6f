"""Extended XYZ and plain XYZ, also compressed with gzip, bzip2 or xz."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from ase.io.extxyz import read_xyz

from cliffordstf.data.readers.compression import check_arrays, is_compressed, open_bytes, open_text
from cliffordstf.data.readers.per_atom import atom_tags, described, fixed_atoms
from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.errors import DataError
from cliffordstf.host.budget import GIGABYTE, USUAL_BUDGET, Budget

if TYPE_CHECKING:
    from ase import Atoms

STATED_UNITS = {
    "energy_unit": ("energy",),
    "forces_unit": ("forces", "force"),
    "stress_unit": ("stress",),
    "length_unit": ("positions",),
}
"""Comment-line keys by which some files state units -> the keys they are about."""

_CELL_LINE = "VEC"
_MANY_COLUMNS = re.compile(r":[SRIL]:(\d{3,})")


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET) -> Contents:
    """Read through ASE, frame by frame; a comment line that is not key=value simply holds no labels."""
    with open_text(path, budget) as file:
        return _parsed(file, path, limit, 0, budget)


def _parsed(file: IO[str], path: Path, limit: int | None, first: int, budget: Budget) -> Contents:
    records: list[Record] = []
    ends: list[str] = []
    try:
        for text in islice(_frames(file, budget, path), limit):
            if not text.endswith("\n"):
                ends = [f"{path.name} ends without a line end; if it was cut off there, frames are missing."]
            records.extend(map(record_from_atoms, read_xyz(io.StringIO(text), 0)))
    except DataError:
        raise
    except Exception as error:  # whatever ASE meets in a broken file, the user needs the place
        raise _broken(path, first + len(records), f"{type(error).__name__}: {error}") from error
    return Contents("extxyz", records, key_units=_stated_units(records), warnings=tuple(ends), first=first)


def _broken(path: Path, frame: int, reason: str) -> DataError:
    return DataError(f"{path.name} cannot be read as extended XYZ at frame {frame} ({reason}); check the file there.")


def _frames(file: IO[str], budget: Budget, path: Path) -> Iterator[str]:
    """The text of each frame: a number of atoms, a comment, that many lines, and the cell where lines have it.

    ASE alone would stop at a blank line without a word, and follow any number of atoms or columns.
    """
    largest = 8 * max(path.stat().st_size, 1)
    check_time, line = budget.clock(str(path)), file.readline()
    while line:
        if not line.strip():
            line = file.readline()
            continue
        check_time()
        count = int(line)
        budget.announced(count, largest, "the number of atoms")
        budget.counted(count, "it")
        lines = [line, file.readline(), *islice(file, count)]
        if len(lines) < count + 2:
            raise ValueError(f"it ends after {max(0, len(lines) - 2)} of {count} atoms")
        _check_comment(lines[1], lines[2] if count else "")
        line = file.readline()
        while line.lstrip().startswith(_CELL_LINE):
            lines.append(line)
            line = file.readline()
        yield "".join(lines)


def _check_comment(comment: str, first: str) -> None:
    """Refuse a comment that states more columns, or larger arrays, than there are."""
    for stated in _MANY_COLUMNS.findall(comment):
        if int(stated) > len(first.split()):
            raise ValueError(f"it states a property of {stated} columns, and lines have {len(first.split())}")
    if "__ndarray__" in comment:
        check_arrays(comment.encode(), "the comment line")


@dataclass(frozen=True)
class Part:
    """Consecutive frames of a file: which, and where their (decompressed) bytes are."""

    first: int
    count: int
    begin: int
    end: int


def parts(path: Path, size: int, limit: int | None = None, budget: Budget = USUAL_BUDGET) -> Iterator[Part]:
    """Where a file, up to a limit, divides into parts of so many frames; of its lines only the counts are looked at.

    Bytes and atoms of the budget are those of a part, which is in memory at once.
    """
    first, count, begin, end, atoms = 0, 0, 0, 0, 0
    check_time = budget.clock(str(path))
    with open_bytes(path) as stream:
        lines = _lines(stream, path, budget)
        for line in lines:
            check_time()
            is_new = not _continues(line)
            if is_new and first + count == limit:
                break
            if is_new and count == size:
                yield Part(first, count, begin, end)
                first, count, begin, atoms = first + count, 0, end, 0
            end += len(line)
            if is_new:
                added, more = _passed(line, lines, path, first + count, budget)
                count, atoms, end = count + 1, atoms + added, end + more
                budget.counted(atoms, f"a part of {path}")
            budget.unpacked(end - begin, f"a part of {path}")
    if count:
        yield Part(first, count, begin, end)


def _lines(stream: IO[bytes], path: Path, budget: Budget) -> Iterator[bytes]:
    """Lines as they are; one without an end could take all memory."""
    most = int(budget.gigabytes * GIGABYTE) + 1
    while line := stream.readline(most):
        budget.unpacked(len(line), f"a line of {path}")
        yield line


def _passed(line: bytes, lines: Iterator[bytes], path: Path, frame: int, budget: Budget) -> tuple[int, int]:
    """Atoms of the frame that begins with a line, and the bytes after that line, which are passed over."""
    try:
        atoms = int(line)
    except ValueError:
        raise _broken(path, frame, "there is no number of atoms") from None
    budget.announced(atoms, budget.atoms, f"the number of atoms of frame {frame}")
    sizes = [len(line) for line in islice(lines, atoms + 1)]
    if len(sizes) < atoms + 1:
        raise _broken(path, frame, f"it ends after {max(0, len(sizes) - 1)} of {atoms} atoms")
    return atoms, sum(sizes)


def _continues(line: bytes) -> bool:
    """Whether a line after the atoms belongs to them: an empty one, or a lattice vector of plain XYZ."""
    return not line.strip() or line.lstrip().startswith(_CELL_LINE.encode())


def read_part(path: Path, part: Part, budget: Budget = USUAL_BUDGET) -> Contents:
    """The frames of a part. Its bytes are read, and nothing else is kept."""
    budget.unpacked(part.end - part.begin, f"a part of {path}")
    with _positioned(path, part.begin) as stream:
        text = stream.read(part.end - part.begin).decode("utf-8")
    return _parsed(io.StringIO(text, newline=None), path, None, part.first, budget)


_open_streams: dict[Path, IO[bytes]] = {}
"""The compressed file that this process reads from, at most one: moving forward in it is cheap, beginning again not."""


@contextmanager
def _positioned(path: Path, offset: int) -> Iterator[IO[bytes]]:
    if not is_compressed(path):
        with path.open("rb") as stream:
            stream.seek(offset)
            yield stream
        return
    if path not in _open_streams:
        while _open_streams:
            _open_streams.popitem()[1].close()
        _open_streams[path] = open_bytes(path)
    _open_streams[path].seek(offset)
    yield _open_streams[path]


def record_from_atoms(atoms: "Atoms") -> Record:
    """Everything an ASE object knows. Calculator results are raw: ASE would zero the forces on fixed atoms."""
    results = dict(atoms.calc.results) if atoms.calc is not None else {}
    arrays = {key: value for key, value in atoms.arrays.items() if key not in ("numbers", "positions", "tags")}
    return Record(
        numbers=atoms.get_atomic_numbers(),
        positions=atoms.get_positions(),
        properties={**arrays, **atoms.info, **results},
        cell=np.asarray(atoms.get_cell().array),
        pbc=atoms.get_pbc(),
        fixed=fixed_atoms(described(atoms.constraints), len(atoms)),
        tags=atom_tags(atoms.arrays.get("tags")),
        atoms=atoms,
    )


def _stated_units(records: list[Record]) -> dict[str, str]:
    first: dict[str, Any] = dict(records[0].properties) if records else {}
    return {key: str(first[name]) for name, keys in STATED_UNITS.items() if name in first for key in keys}
