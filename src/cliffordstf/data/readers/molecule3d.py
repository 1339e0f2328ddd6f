"""Molecule3D: the folder `data/raw` with its SDF files and `properties.csv`."""

import csv
from itertools import chain, islice
from pathlib import Path

import numpy as np

from cliffordstf.data.readers.paths import natural_key
from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.data.readers.sdf import Molecule, molecules
from cliffordstf.data.structure import FloatArray
from cliffordstf.errors import DataError
from cliffordstf.host.budget import USUAL_BUDGET, Budget

TABLE = "properties.csv"
SDF_FILES = "combined_mols_*.sdf"

COLUMNS = {
    "dipole x": "dipole_x",
    "dipole y": "dipole_y",
    "dipole z": "dipole_z",
    "homo": "homo",
    "lumo": "lumo",
    "homolumogap": "gap",
    "scf energy": "scf_energy",
}
"""Column -> property. Dipoles are in D, the rest in eV. Targets are counted from dipole x, so the gap is number 5."""


def is_folder(path: Path) -> bool:
    """Whether a folder is the `raw` folder of Molecule3D."""
    return (path / TABLE).is_file() and next(path.glob(SDF_FILES), None) is not None


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET) -> Contents:
    """Read the molecules of all SDF files in order; line by line they are those of the table."""
    files = sorted(path.glob(SDF_FILES), key=lambda file: natural_key(file.name))
    ids, names, values = _table(path / TABLE, limit)
    records = []
    for number, molecule in enumerate(islice(chain.from_iterable(molecules(file, budget) for file in files), limit)):
        if number >= len(values):
            raise DataError(f"{path} holds more molecules in its SDF files than {TABLE} has rows; download it again.")
        records.append(_record(molecule, int(ids[number]), dict(zip(names, values[number].tolist(), strict=True))))
    if len(records) != len(values):
        raise DataError(
            f"{path} holds {len(records)} molecules in its SDF files but {len(values)} in {TABLE}; download it again."
        )
    return Contents(
        "Molecule3D",
        records,
        key_units=dict.fromkeys(("dipole_x", "dipole_y", "dipole_z"), "1"),
        energy_key="gap",
        has_forces=False,
    )


def _table(path: Path, limit: int | None) -> tuple[FloatArray, list[str], FloatArray]:
    """Ids, (molecules,); names of the properties; and the properties, (molecules, names)."""
    with path.open(encoding="utf-8", newline="") as stream:
        header = [name.strip() for name in next(csv.reader(stream), [])]
        found = [name for name in COLUMNS if name in header]
        if "cid" not in header or "homolumogap" not in found:
            raise DataError(f"{path} lacks the column 'cid' or 'homolumogap'; it is not the table of Molecule3D.")
        columns = [header.index(name) for name in ("cid", *found)]
        table = np.loadtxt(stream, delimiter=",", usecols=columns, max_rows=limit, ndmin=2)
    return table[:, 0], [COLUMNS[name] for name in found], table[:, 1:]


def _record(molecule: Molecule, cid: int, properties: dict[str, float]) -> Record:
    if molecule.title.isdigit() and int(molecule.title) != cid:
        raise DataError(
            f"the SDF files have molecule {molecule.title} where {TABLE} has {cid}; take both from one download."
        )
    return Record(molecule.numbers, molecule.positions, properties, label=f"cid {cid}", id=cid)
