"""Extended XYZ and plain XYZ, also compressed with gzip, bzip2 or xz."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ase.io.extxyz import read_xyz

from cliffordstf.data.readers.compression import open_text
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
    records: list[Record] = []
    with open_text(path) as file:
        try:
            for atoms in read_xyz(file, slice(0, limit)):
                records.append(record_from_atoms(atoms))
        except Exception as error:  # whatever ASE meets in a broken file, the user needs the place
            raise DataError(
                f"{path.name} cannot be read as extended XYZ at frame {len(records)} "
                f"({type(error).__name__}: {error}); check the file there."
            ) from error
    return Contents("extxyz", records, key_units=_stated_units(records))


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
