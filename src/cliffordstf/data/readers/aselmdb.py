"""ASE-LMDB databases (.aselmdb): zlib-compressed JSON rows of ASE in an LMDB file, as fairchem writes them."""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from cliffordstf.data.readers.lmdb_file import LmdbFile, open_lmdb
from cliffordstf.data.readers.per_atom import atom_tags, fixed_atoms
from cliffordstf.data.readers.record import Contents, Record, system_id
from cliffordstf.errors import DataError
from cliffordstf.host.budget import GIGABYTE, USUAL_BUDGET, Budget

_STRUCTURAL = {"numbers", "positions", "cell", "pbc", "constraints", "tags", "data", "key_value_pairs"}
_ADMINISTRATIVE = {"unique_id", "ctime", "mtime", "user", "calculator", "calculator_parameters"}


_COUNTS: dict[bytes, Any] = {b"nextid": "unknown", b"deleted_ids": []}
"""Entries beside the rows, and what stands for one that is not there."""


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET, first: int = 0) -> Contents:
    """Read rows in the order of their ids, from one of them on. Nothing is unpickled."""
    records = []
    with open_lmdb(path, budget) as entries:
        for key in entries.numbers[first : None if limit is None else first + limit]:
            number = int(key)
            row = _decode(path, entries.get(key) or b"", number, budget)
            if "numbers" not in row or "positions" not in row:
                raise DataError(f"{path.name} has no atoms under id {number}; it is not an ASE-LMDB database.")
            records.append(_record(row))
        warnings = _short(path, entries, len(entries.numbers), budget)
    return Contents("ASE-LMDB", records, warnings=warnings, first=first)


def _short(path: Path, entries: LmdbFile, found: int, budget: Budget) -> tuple[str, ...]:
    """A warning where the number of the next row, less the rows that were removed, is not that of the rows."""
    stated = [_decode(path, entries.get(key) or b"", 0, budget, default) for key, default in _COUNTS.items()]
    last, removed = stated
    if not isinstance(last, int) or not isinstance(removed, list) or last - 1 - len(removed) == found:
        return ()
    return (
        f"{path.name} states {last - 1 - len(removed)} rows but holds {found}; check that it was copied as a whole.",
    )


def _decode(path: Path, value: bytes, number: int, budget: Budget, default: Any = None) -> Any:
    """A row, or with a default anything else that stands there in the same form."""
    if default is not None and not value:
        return default
    if value.startswith(b"\x80"):
        raise DataError(
            f"{path.name} holds Python pickles, which could run code when opened, and is not read; convert it to "
            "ASE-LMDB (.aselmdb) or extended XYZ."
        )
    try:
        text = _decompressed(value, int(budget.gigabytes * GIGABYTE))
        row = json.loads(text, object_hook=_arrays)
    except (zlib.error, ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{path.name} has a damaged row under id {number} ({error}); write the file again.") from error
    if default is None and not isinstance(row, dict):
        raise DataError(f"{path.name} has no row of ASE under id {number}; it is not an ASE-LMDB database.")
    return row


def _decompressed(value: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(value, most)
    if not unpacker.eof:
        raise ValueError(f"it is cut off, or unpacks to more than {most} bytes")
    return text


def _arrays(item: dict[str, Any]) -> Any:
    """ASE writes an array as {"__ndarray__": [shape, dtype, flat list]}."""
    if set(item) != {"__ndarray__"}:
        return item
    shape, dtype, flat = item["__ndarray__"]
    kind = np.dtype(str(dtype))
    if kind.hasobject:
        raise ValueError("an array of Python objects")
    return np.array(flat, dtype=kind).reshape(shape)


def _record(row: dict[str, Any]) -> Record:
    results = {key: value for key, value in row.items() if key not in _STRUCTURAL | _ADMINISTRATIVE}
    extra = {**(row.get("data") or {}), **(row.get("key_value_pairs") or {})}
    return Record(
        numbers=np.asarray(row["numbers"], dtype=np.int64),
        positions=np.asarray(row["positions"], dtype=np.float64),
        properties={**extra, **results},
        cell=np.asarray(row.get("cell", np.zeros((3, 3))), dtype=np.float64).reshape(3, 3),
        pbc=np.broadcast_to(np.asarray(row.get("pbc", False), dtype=bool), (3,)),
        fixed=fixed_atoms(row.get("constraints") or (), len(row["numbers"])),
        tags=atom_tags(row.get("tags")),
        id=_system(extra.get("sid")),
    )


def _system(name: Any) -> int | None:
    """The number of a system of Open Catalyst, which is stored as a name or as a number."""
    if isinstance(name, int | np.integer) or (str(name).isdecimal() and len(str(name)) < 19):
        return int(name)
    return system_id(str(name))
