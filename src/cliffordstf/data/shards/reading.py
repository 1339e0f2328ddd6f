"""Read structures of shards by number, without the rest of their file."""

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.data.shards.layout import (
    ATOM_COLUMNS,
    INDEX,
    STRUCTURE_COLUMNS,
    Column,
    ShardSummary,
    file_of,
    read_index,
)
from cliffordstf.data.structure import IntArray
from cliffordstf.errors import DataError
from cliffordstf.host.budget import USUAL_BUDGET, Budget, size_of

WEIGHTS = ("config_energy_weight", "config_forces_weight", "config_stress_weight")


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET, first: int = 0) -> Contents:
    """Read structures of all shards in order, from one of them on."""
    check_time = budget.clock(str(path))
    ends = list(accumulate(summary.structures for summary in read_index(path)))
    total = ends[-1] if ends else 0
    stop = total if limit is None else min(total, first + limit)
    records: list[Record] = []
    size = 0.0
    while first + len(records) < stop:
        check_time()
        number = first + len(records)
        place = bisect_right(ends, number)
        begin = ends[place - 1] if place else 0
        shard = _shard(path, place, (path / INDEX).stat().st_mtime_ns)
        size += shard.size(number - begin, min(stop, ends[place]) - begin)
        budget.unpacked(size, str(path))
        records += shard.records(number - begin, min(stop, ends[place]) - begin)
    return Contents("cliffordstf shards", records, first=first)


def count(path: Path, budget: Budget = USUAL_BUDGET) -> int:  # noqa: ARG001 - as other formats are counted
    """Number of structures."""
    return sum(summary.structures for summary in read_index(path))


def sizes(path: Path) -> IntArray:
    """Atoms of every structure, (structures,)."""
    return _column(path, "atoms")


def ids(path: Path) -> IntArray:
    """Whole number by which lists name each structure, -1 for none, (structures,)."""
    return _column(path, "id")


def _column(path: Path, name: str) -> IntArray:
    """A column of whole numbers of all shards, with -1 where a shard has none."""
    found = [np.zeros(0, dtype=np.int64)]
    for summary in read_index(path):
        column = _Shard(path / summary.name, summary).columns.get(name)
        found.append(np.full(summary.structures, -1) if column is None else column.read(0, summary.structures))
    return np.concatenate(found)


class _Shard:
    """A shard that is open: where its columns are, and where in them a structure begins."""

    def __init__(self, folder: Path, summary: ShardSummary) -> None:
        self.folder, self.summary = folder, summary
        self.columns: dict[str, _Array] = {}
        for columns, rows in ((STRUCTURE_COLUMNS, summary.structures), (ATOM_COLUMNS, summary.atoms)):
            for name, column in columns.items():
                file = file_of(folder, name)
                if file.is_file() or column.missing is None:
                    self.columns[name] = _Array(file, column, rows)
        atoms = self.columns["atoms"].read(0, summary.structures)
        if (atoms < 0).any() or int(atoms.sum()) != summary.atoms:
            raise DataError(f"{folder} does not have the {summary.atoms} atoms of {INDEX}; convert the data again.")
        self.ends = np.cumsum(atoms)

    def _atoms(self, first: int, stop: int) -> tuple[int, int]:
        """Where the atoms of some structures begin and end."""
        return int(self.ends[first - 1]) if first else 0, int(self.ends[stop - 1])

    def size(self, first: int, stop: int) -> float:
        """Bytes of some structures."""
        begin, end = self._atoms(first, stop)
        return sum(
            column.size((end - begin) if name in ATOM_COLUMNS else (stop - first))
            for name, column in self.columns.items()
        )

    def records(self, first: int, stop: int) -> list[Record]:
        begin, end = self._atoms(first, stop)
        found = {
            name: column.read(begin, end) if name in ATOM_COLUMNS else column.read(first, stop)
            for name, column in self.columns.items()
        }
        cuts = np.cumsum(found["atoms"])[:-1]
        parts = {name: np.split(found[name], cuts) if name in ATOM_COLUMNS else found[name] for name in found}
        return [self._record({name: part[i] for name, part in parts.items()}) for i in range(stop - first)]

    def _record(self, values: dict[str, Any]) -> Record:
        known = {name: value for name, value in values.items() if not _is_missing(name, value)}
        properties: dict[str, Any] = {name: known[name] for name in ("energy", "forces", "stress") if name in known}
        if "weights" in known:
            properties |= dict(zip(WEIGHTS, known["weights"].tolist(), strict=True))
        if "config_type" in known:
            properties["config_type"] = self.summary.config_types[int(known["config_type"])]
        return Record(
            numbers=values["numbers"].astype(np.int64),
            positions=values["positions"],
            properties=properties,
            cell=values["cell"],
            pbc=values["pbc"],
            fixed=known["fixed"].astype(bool) if "fixed" in known else None,
            tags=known.get("tags"),
            id=int(known["id"]) if "id" in known else None,
        )


def _is_missing(name: str, value: Any) -> bool:
    missing = {**STRUCTURE_COLUMNS, **ATOM_COLUMNS}[name].missing
    if missing is None or name == "weights":
        return False
    return bool(np.isnan(value).all() if np.isnan(missing) else np.all(value == missing))


class _Array:
    """An array in a .npy file, whose rows are read without mapping the file: memory stays what was asked for.

    Raises:
        DataError: It is not there, or not of the kind or length that it must have.
    """

    def __init__(self, file: Path, column: Column, rows: int) -> None:
        self.file, self.shape = file, column.shape
        try:
            with file.open("rb") as stream:
                np.lib.format.read_magic(stream)
                shape, fortran, self.dtype = np.lib.format.read_array_header_1_0(stream)
                self.offset = stream.tell()
        except (ValueError, OSError) as error:
            raise DataError(f"{file} cannot be read ({error}); convert the data again.") from None
        is_ours = not fortran and self.dtype == np.dtype(column.kind) and shape == (rows, *column.shape)
        if not is_ours or file.stat().st_size < self.offset + self.size(rows):
            raise DataError(
                f"{file} does not have {rows} rows of {column.kind} as {INDEX} states; convert the data again."
            )

    def size(self, rows: int) -> float:
        """Bytes of some rows."""
        return size_of((rows, *self.shape), self.dtype.itemsize)

    def read(self, first: int, stop: int) -> NDArray[Any]:
        width = int(np.prod(self.shape, dtype=np.int64))
        offset = self.offset + first * width * self.dtype.itemsize
        values = np.fromfile(self.file, dtype=self.dtype, count=(stop - first) * width, offset=offset)
        if len(values) != (stop - first) * width:
            raise DataError(f"{self.file} ends before row {stop}; convert the data again.")
        return values.reshape(stop - first, *self.shape)


@lru_cache(maxsize=4096)
def _shard(path: Path, place: int, _modified: int) -> _Shard:
    summary = read_index(path)[place]
    return _Shard(path / summary.name, summary)
