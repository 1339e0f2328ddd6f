"""SDF files (V2000 connection tables): elements and positions, one molecule after the other."""

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import numpy as np
from ase.data import atomic_numbers

from cliffordstf.data.readers import qm9
from cliffordstf.data.readers.compression import open_text
from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.data.structure import FloatArray, IntArray
from cliffordstf.errors import DataError
from cliffordstf.host.budget import USUAL_BUDGET, Budget

_NUMBERS = {**atomic_numbers, "D": 1, "T": 1}
_END = "$$$$"
_TABLE_END = "M  END"
_BOND = re.compile(r"[ \d]{2}\d[ \d]{2}\d[ \d]{2}\d")

_QM9_COLUMNS = {"u0": "U0", "u298": "U", "h298": "H", "g298": "G", "cv": "Cv"}
_ATOMISATION = ("u0_atom", "u298_atom", "h298_atom", "g298_atom")


@dataclass(frozen=True)
class Molecule:
    """A molecule of an SDF file: its title line, atomic numbers (atoms,) and positions in Å (atoms, 3)."""

    title: str
    numbers: IntArray
    positions: FloatArray


def is_sdf(start: bytes) -> bool:
    """Whether a file with these first bytes is an SDF file: its fourth line ends with the version of the table."""
    lines = start.split(b"\n", 4)
    return len(lines) > 3 and lines[3].rstrip().endswith((b"V2000", b"V3000"))


def molecules(path: Path, budget: Budget = USUAL_BUDGET) -> Iterator[Molecule]:
    """The molecules of a file, read as they are asked for.

    Raises:
        DataError: A table is cut off or of another version; the message names its place.
    """
    with open_text(path, budget) as file:
        for index in count():
            header = list(islice(file, 4))
            if not "".join(header).strip() and not any(line.strip() for line in file):
                return
            try:
                molecule = _molecule(header, file)
                _skip_rest(file, is_only=index == 0)
            except (ValueError, IndexError) as error:
                raise DataError(
                    f"{path.name}, molecule {index} cannot be read ({error}); check the file there."
                ) from None
            yield molecule


def _skip_rest(file: Iterable[str], is_only: bool) -> None:
    """Pass over properties and data up to the line of dollars, which a file with one molecule may leave out."""
    table_ended, line = False, ""
    for line in file:
        if line.startswith(_END):
            if not table_ended:
                break
            return
        if line.startswith(_TABLE_END) or line.rstrip().endswith(("V2000", "V3000")):
            if table_ended or not line.startswith(_TABLE_END):
                raise ValueError(f"it holds two tables without a line {_END} between them")
            table_ended = True
    if not table_ended:
        raise ValueError("it has no line 'M  END', so it was cut off or changed")
    if not is_only or not line.endswith("\n"):
        raise ValueError(f"it ends without a line {_END}, so it was cut off")


def _molecule(header: list[str], file: Iterable[str]) -> Molecule:
    """Title, program and comment lines, a line of counts, and a line of fixed columns per atom."""
    if len(header) < 4 or "V2000" not in header[3]:
        raise ValueError("it has no V2000 table")
    n_atoms = int(header[3][:3])
    atoms = list(islice(file, n_atoms))
    if len(atoms) < n_atoms:
        raise ValueError(f"it ends after {len(atoms)} of {n_atoms} atoms")
    bonds = list(islice(file, int(header[3][3:6])))
    if not all(_BOND.match(line) for line in bonds):
        raise ValueError(f"its {len(bonds)} bonds are not behind its {n_atoms} atoms")
    positions = [float(line[start : start + 10]) for line in atoms for start in (0, 10, 20)]
    numbers = [_NUMBERS.get(line[31:34].strip(), 0) for line in atoms]
    return Molecule(
        header[0].strip(), np.array(numbers, dtype=np.int64), np.array(positions, dtype=np.float64).reshape(-1, 3)
    )


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET) -> Contents:
    """Read the molecules, with the targets of QM9 where its table `….sdf.csv` stands beside the file."""
    beside = path.with_name(path.name + ".csv")
    found = islice(molecules(path, budget), limit)
    if not beside.is_file():
        return Contents("SDF", [_record(molecule) for molecule in found])
    table = _table(beside)
    if table is None:
        warning = f"{beside.name} has no column mol_id or u0, so it is not the table of QM9 and was left out."
        return Contents("SDF", [_record(molecule) for molecule in found], warnings=(warning,))
    records = []
    for molecule in found:
        if molecule.title not in table:
            raise DataError(
                f"{path.name} has a molecule '{molecule.title}' that is not in {beside.name}; take both from one "
                "download."
            )
        records.append(_record(molecule, table[molecule.title]))
    if limit is None and len(records) < len(table):
        raise DataError(
            f"{path.name} holds {len(records)} molecules but {beside.name} has {len(table)}; it was cut off, copy it "
            "again."
        )
    return qm9.contents("QM9 SDF", records, dict.fromkeys(_ATOMISATION, "kcal/mol"))


def _record(molecule: Molecule, targets: dict[str, float] | None = None) -> Record:
    index = molecule.title.removeprefix("gdb_")
    return Record(
        numbers=molecule.numbers,
        positions=molecule.positions,
        properties=targets or {},
        label=molecule.title.replace("_", " "),
        id=int(index) if index.isdigit() else None,
    )


def _table(path: Path) -> dict[str, dict[str, float]] | None:
    """Targets by molecule, or None if this is not the table of QM9."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = csv.reader(stream)
        columns = next(rows, [])
        if "mol_id" not in columns or "u0" not in columns:
            return None
        names = [_QM9_COLUMNS.get(column, column) for column in columns]
        place = columns.index("mol_id")
        table = {}
        for row in rows:
            pairs = zip(names, row, strict=True)
            try:
                table[row[place]] = {name: qm9.number(value) for name, value in pairs if name != "mol_id"}
            except (ValueError, IndexError) as error:
                raise DataError(f"{path.name}, line {rows.line_num} is damaged ({error}); copy it again.") from None
    return table
