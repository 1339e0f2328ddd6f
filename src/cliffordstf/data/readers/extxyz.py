"""Extended XYZ and plain XYZ, also compressed with gzip, bzip2 or xz."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from ase.io.extxyz import read_xyz

from cliffordstf.data.readers.compression import is_compressed, open_bytes, open_text
from cliffordstf.data.readers.per_atom import atom_tags, described, fixed_atoms
from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.errors import DataError

if TYPE_CHECKING:
    from ase import Atoms

STATED_UNITS = {
    "energy_unit": ("energy",),
    "forces_unit": ("forces", "force"),
    "stress_unit": ("stress",),
    "length_unit": ("positions",),
}
"""Comment-line keys by which some files state units -> the keys they are about."""


def read(path: Path, limit: int | None) -> Contents:
    """Read through ASE; a comment line that is not key=value simply holds no labels."""
    with open_text(path) as file:
        return _parsed(file, path.name, limit, 0)


def _parsed(file: IO[str], name: str, limit: int | None, first: int) -> Contents:
    records: list[Record] = []
    try:
        for atoms in read_xyz(file, slice(0, limit)):
            records.append(record_from_atoms(atoms))
    except Exception as error:  # whatever ASE meets in a broken file, the user needs the place
        raise _broken(name, first + len(records), f"{type(error).__name__}: {error}") from error
    return Contents("extxyz", records, key_units=_stated_units(records), first=first)


def _broken(name: str, frame: int, reason: str) -> DataError:
    return DataError(f"{name} cannot be read as extended XYZ at frame {frame} ({reason}); check the file there.")


@dataclass(frozen=True)
class Part:
    """Consecutive frames of a file: which, and where their (decompressed) bytes are."""

    first: int
    count: int
    begin: int
    end: int


def parts(path: Path, size: int, limit: int | None = None) -> Iterator[Part]:
    """Where a file, up to a limit, divides into parts of so many frames; of its lines only the counts are looked at."""
    first, count, begin, end = 0, 0, 0, 0
    with open_bytes(path) as stream:
        for line in stream:
            is_new = not _continues(line)
            if is_new and first + count == limit:
                break
            if is_new and count == size:
                yield Part(first, count, begin, end)
                first, count, begin = first + count, 0, end
            end += len(line)
            if not is_new:
                continue
            try:
                end += sum(len(next(stream)) for _ in range(int(line) + 1))
            except (ValueError, StopIteration, RuntimeError):
                reason = "there is no number of atoms" if not line.strip().isdigit() else "the file ends within it"
                raise _broken(path.name, first + count, reason) from None
            count += 1
    if count:
        yield Part(first, count, begin, end)


def _continues(line: bytes) -> bool:
    """Whether a line after the atoms belongs to them: an empty one, or a lattice vector of plain XYZ."""
    return not line.strip() or line.lstrip().startswith(b"VEC")


def read_part(path: Path, part: Part) -> Contents:
    """The frames of a part. Its bytes are read, and nothing else is kept."""
    with _positioned(path, part.begin) as stream:
        text = stream.read(part.end - part.begin).decode("utf-8")
    return _parsed(io.StringIO(text), path.name, None, part.first)


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
