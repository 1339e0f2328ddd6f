"""Structures of OC20 and OC22 as PyTorch Geometric pickled them: in LMDB files, or as a list in one pickle."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cliffordstf.data.readers.compression import unpacked
from cliffordstf.data.readers.lmdb_file import open_lmdb
from cliffordstf.data.readers.per_atom import atom_tags
from cliffordstf.data.readers.pickles import CODE, GraphObject, load_pickle, plain
from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.errors import DataError
from cliffordstf.host.budget import USUAL_BUDGET, Budget

_STRUCTURE = {"pos", "cell", "atomic_numbers", "natoms", "fixed", "tags"}
_GRAPH = {"x", "edge_index", "edge_attr", "cell_offsets", "normal", "face", "distances", "neighbors"}
_NAMES = {"sid", "fid", "id"}
_LABELS = {"y": "energy", "force": "forces"}
_INITIAL_FORCES = "force"


def read_lmdb(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET, first: int = 0) -> Contents:
    """Read structures in the order of their numbers: the keys sort as text, and `length` may be absent."""
    records = []
    with open_lmdb(path, budget) as entries:
        warnings = _short(path, entries.get(b"length"), len(entries.numbers))
        for key in entries.numbers[first : None if limit is None else first + limit]:
            where = f"{path.name}, key {key.decode()}"
            records.append(_record(load_pickle(entries.get(key) or b"", where), where))
    return replace(_contents("Open Catalyst LMDB", records, warnings), first=first)


def _short(path: Path, length: bytes | None, found: int) -> tuple[str, ...]:
    stated = load_pickle(length, f"{path.name}, key length") if length is not None else found
    stated = int(np.ravel(plain(stated))[0])
    if stated == found:
        return ()
    return (f"{path.name} states {stated} structures but holds {found}; check that it was copied as a whole.",)


def read_pickle(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET) -> Contents:
    """Read a pickled list of such objects."""
    found = load_pickle(unpacked(path, budget), str(path))
    items = found if isinstance(found, list) else [found]
    if not items or not all(isinstance(item, GraphObject) for item in items):
        raise DataError(
            f"{path} is a Python pickle, {CODE} unless it holds structures of OC20 or OC22; convert it to extended XYZ "
            "or ASE-LMDB."
        )
    records = [_record(item, f"{path.name}, entry {index}") for index, item in enumerate(items[:limit])]
    return _contents("Open Catalyst pickle", records, ())


def _contents(format: str, records: list[Record], warnings: tuple[str, ...]) -> Contents:
    relaxed = any("pos_relaxed" in record.properties for record in records)
    return Contents(
        format + (" (IS2RE)" if relaxed else ""),
        records,
        # The forces at the start do not belong to the energy at the end.
        only_if_named=frozenset({_INITIAL_FORCES}) if relaxed else frozenset(),
        has_forces=not relaxed,
        warnings=warnings,
    )


def _record(item: Any, where: str) -> Record:
    fields = item.fields() if isinstance(item, GraphObject) else {}
    values = {key: plain(value) for key, value in fields.items() if value is not None and key not in _GRAPH}
    missing = [key for key in ("atomic_numbers", "pos", "cell") if key not in values]
    if missing:
        raise DataError(f"{where} has no '{missing[0]}'; it is not a structure of OC20 or OC22.")
    numbers = np.asarray(values["atomic_numbers"]).astype(np.int64).reshape(-1)
    names = {key: _name(values[key]) for key in ("sid", "fid") if key in values}
    system = names.get("sid", "")
    return Record(
        numbers=numbers,
        positions=np.asarray(values["pos"], dtype=np.float64).reshape(-1, 3),
        properties=_properties(values),
        cell=np.asarray(values["cell"], dtype=np.float64).reshape(3, 3),
        pbc=np.ones(3, dtype=bool),
        label=", ".join(f"{key} {name}" for key, name in names.items()),
        fixed=np.asarray(values["fixed"]).astype(bool).reshape(-1) if "fixed" in values else None,
        tags=atom_tags(values.get("tags")),
        id=int(system) if system.isdigit() else None,
    )


def _properties(values: dict[str, Any]) -> dict[str, Any]:
    """Labels by name: `y` and `force` of S2EF, or `y_relaxed` of IS2RE, whose structure is the one at the start."""
    relaxed = "y_relaxed" in values or "pos_relaxed" in values
    renamed = {"y_relaxed": "energy"} if relaxed else _LABELS
    return {
        renamed.get(key, key): value
        for key, value in values.items()
        if key not in _STRUCTURE | _NAMES and isinstance(value, int | float | np.ndarray)
    }


def _name(value: Any) -> str:
    """An id as text, whether it is an int, a text or a tensor with one entry."""
    single = np.ravel(value)[0]
    return str(int(single)) if np.asarray(single).dtype.kind in "iuf" else str(single)
