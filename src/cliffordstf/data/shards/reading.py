"""Read structures of shards by number, without the rest of their file."""

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.data.shards.layout import ATOM_COLUMNS, INDEX, STRUCTURE_COLUMNS, ShardSummary, file_of, read_index
from cliffordstf.data.structure import IntArray
from cliffordstf.errors import DataError
from cliffordstf.host.budget import USUAL_BUDGET, Budget

WEIGHTS = ("config_energy_weight", "config_forces_weight", "config_stress_weight")


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET, first: int = 0) -> Contents:
    """Read structures of all shards in order, from one of them on."""
    summaries = read_index(path)
    budget.counted(sum(summary.atoms for summary in summaries) if limit is None else 0, str(path))
    ends = list(accumulate(summary.structures for summary in summaries))
    total = ends[-1] if ends else 0
    stop = total if limit is None else min(total, first + limit)
    records: list[Record] = []
    while first + len(records) < stop:
        number = first + len(records)
        place = bisect_right(ends, number)
        begin = ends[place] - summaries[place].structures
        shard = _shard(path, place, (path / INDEX).stat().st_mtime_ns)
        records += shard.records(number - begin, min(stop, ends[place]) - begin)
    return Contents("cliffordstf shards", records, first=first)


def count(path: Path) -> int:
    """Number of structures."""
    return sum(summary.structures for summary in read_index(path))


def sizes(path: Path) -> IntArray:
    """Atoms of every structure, (structures,)."""
    shards = [np.load(file_of(path / summary.name, "atoms"), allow_pickle=False) for summary in read_index(path)]
    return np.concatenate(shards) if shards else np.zeros(0, dtype=np.int64)


def ids(path: Path) -> IntArray:
    """Whole number by which lists name each structure, -1 for none, (structures,)."""
    found = []
    for summary in read_index(path):
        file = file_of(path / summary.name, "id")
        found.append(np.load(file, allow_pickle=False) if file.is_file() else np.full(summary.structures, -1))
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


class _Shard:
    """A shard that is open: where its columns are, and where in them a structure begins."""

    def __init__(self, folder: Path, summary: ShardSummary) -> None:
        self.folder, self.summary = folder, summary
        names = (*STRUCTURE_COLUMNS, *ATOM_COLUMNS)
        files = {name: file_of(folder, name) for name in names}
        self.columns = {name: _Array(file) for name, file in files.items() if file.is_file()}
        lengths = {"atoms": summary.structures, "numbers": summary.atoms}
        short = next(
            (n for n, length in lengths.items() if n not in self.columns or self.columns[n].rows != length), None
        )
        if short is not None:
            raise DataError(
                f"{files[short]} does not have the {lengths[short]} rows of {INDEX}; convert the data again."
            )
        self.ends = np.cumsum(self.columns["atoms"].read(0, summary.structures))

    def records(self, first: int, stop: int) -> list[Record]:
        begin, end = int(self.ends[first - 1]) if first else 0, int(self.ends[stop - 1])
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
    """An array in a .npy file, whose rows are read without mapping the file: memory stays what was asked for."""

    def __init__(self, file: Path) -> None:
        self.file = file
        with file.open("rb") as stream:
            try:
                np.lib.format.read_magic(stream)
                shape, fortran, self.dtype = np.lib.format.read_array_header_1_0(stream)
            except ValueError as error:
                raise DataError(f"{file} is damaged ({error}); convert the data again.") from None
            self.offset = stream.tell()
        if fortran or self.dtype.hasobject:
            raise DataError(f"{file} is not an array as convert writes them; convert the data again.")
        self.rows, self.shape = int(shape[0]), tuple(shape[1:])

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
