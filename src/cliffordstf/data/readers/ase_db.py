"""ASE databases in SQLite (.db), those of SchNetPack included."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from ase.calculators.calculator import all_properties
from ase.db import connect

from cliffordstf.data.readers.compression import check_arrays
from cliffordstf.data.readers.paths import MOST_FILES, Stamp, stamp
from cliffordstf.data.readers.per_atom import atom_tags, described, fixed_atoms
from cliffordstf.data.readers.record import MOMENTA, Contents, Record
from cliffordstf.errors import DataError, LimitError
from cliffordstf.host.budget import USUAL_BUDGET, Budget

_NO_ENERGIES = {"d", "debye", "ghz", "a0^2", "a0^3", "bohr^2", "bohr^3", "a0a0", "a0a0a0", "cal/mol/k", "calmol^-1k^-1"}
"""Units of the other targets of QM9, spaces left out: such numbers are not converted."""


_COMPUTES = re.compile(r"^\s*CREATE\s+VIRTUAL|\bGENERATED\b|\bAS\s*\(", re.IGNORECASE)
"""Virtual tables and columns that are computed from others."""


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET, first: int = 0) -> Contents:
    """Read rows in the order of their ids, from one of them on.

    SchNetPack keeps labels in the `data` of a row and states their units in the metadata, which is followed.
    """
    _check_schema(path, stamp(path))
    records: list[Record] = []
    from_data: set[str] = set()
    with connect(str(path), type="db", use_lock_file=False) as database:
        _stop_in_time(database.connection, budget.clock(str(path)))
        metadata = dict(database.metadata)
        for row in database.select(limit=limit, offset=first, sort="id"):
            records.append(record_from_row(row))
            from_data.update(dict(row.data))
    stated = {str(key): _unit(str(unit)) for key, unit in metadata.get("_property_unit_dict", {}).items()}
    if "_distance_unit" in metadata:
        stated["positions"] = str(metadata["_distance_unit"])
    return Contents(
        "SchNetPack ASE database" if "_property_unit_dict" in metadata else "ASE database",
        records,
        key_units=stated,
        # In QM9 this is the Gibbs free energy at room temperature, which no forces belong to.
        only_if_named=frozenset({"free_energy"} & from_data),
        first=first,
    )


def count(path: Path, budget: Budget = USUAL_BUDGET) -> int:
    """Number of rows."""
    _check_schema(path, stamp(path))
    with connect(str(path), type="db", use_lock_file=False) as database:
        _stop_in_time(database.connection, budget.clock(str(path)))
        return int(database.count())


@lru_cache(maxsize=MOST_FILES)
def _check_schema(path: Path, _stamp: Stamp) -> None:
    """Look at a database before ASE does: definitions inside it could compute without end."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        for kind, name, definition in database.execute("SELECT type, name, sql FROM sqlite_master"):
            if kind not in ("table", "index") or _COMPUTES.search(definition or ""):
                raise DataError(
                    f"{path} defines '{name}' as something that is computed ({kind}), which databases of ASE do not; "
                    "copy its rows to a new one."
                )
        columns = {row[1] for row in database.execute("PRAGMA table_info(systems)")}
        for column in columns & {"key_value_pairs", "data", "constraints", "calculator_parameters"}:
            # ASE makes an array of the stated shape before it looks at the numbers.
            rows = f"SELECT {column} FROM systems WHERE instr(CAST({column} AS BLOB), CAST('__ndarray__' AS BLOB))"
            for (text,) in database.execute(rows):
                check_arrays(text if isinstance(text, bytes) else str(text).encode(), str(path))


def _stop_in_time(connection: sqlite3.Connection, check_time: Callable[[], None]) -> None:
    def is_late() -> int:
        try:
            check_time()
        except LimitError:
            return 1
        return 0

    connection.set_progress_handler(is_late, 1_000_000)


def record_from_row(row: Any) -> Record:
    """One database row; results are stored as calculated, with the forces on fixed atoms."""
    results = {name: row.get(name) for name in all_properties if row.get(name) is not None}
    return Record(
        numbers=np.asarray(row.numbers),
        positions=np.asarray(row.positions),
        properties={**dict(row.data), **dict(row.key_value_pairs), **_velocities(row), **results},
        cell=np.asarray(row.cell, dtype=np.float64),
        pbc=np.asarray(row.pbc, dtype=bool),
        fixed=fixed_atoms(described(row.constraints), len(row.numbers)),
        tags=atom_tags(row.get("tags")),
    )


def _velocities(row: Any) -> dict[str, Any]:
    momenta = row.get("momenta")
    return {} if momenta is None else {MOMENTA: np.asarray(momenta)}


def _unit(text: str) -> str:
    return "1" if text.casefold().replace(" ", "") in _NO_ENERGIES else text
