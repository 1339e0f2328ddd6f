"""ASE databases in SQLite (.db), those of SchNetPack included."""

from pathlib import Path
from typing import Any

import numpy as np
from ase.calculators.calculator import all_properties
from ase.db import connect

from cliffordstf.data.readers.per_atom import atom_tags, described, fixed_atoms
from cliffordstf.data.readers.record import MOMENTA, Contents, Record

_NO_ENERGIES = {"d", "debye", "ghz", "a0^2", "a0^3", "bohr^2", "bohr^3", "a0a0", "a0a0a0", "cal/mol/k", "calmol^-1k^-1"}
"""Units of the other targets of QM9, spaces left out: such numbers are not converted."""


def read(path: Path, limit: int | None, first: int = 0) -> Contents:
    """Read rows in the order of their ids, from one of them on.

    SchNetPack keeps labels in the `data` of a row and states their units in the metadata, which is followed.
    """
    records: list[Record] = []
    from_data: set[str] = set()
    with connect(str(path), type="db", use_lock_file=False) as database:
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


def count(path: Path) -> int:
    """Number of rows."""
    with connect(str(path), type="db", use_lock_file=False) as database:
        return int(database.count())


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
