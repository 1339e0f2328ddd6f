"""The format of our shards: a folder of folders of plain NumPy arrays, in eV and Å, and an index.

    NAME.shards/
      index.json        format, version, and of every shard its structures, atoms, elements and labels
      00000/
        structure_atoms.npy   atoms of each structure, (structures,)
        structure_energy.npy  …, one row a structure
        atom_numbers.npy      atomic numbers of all structures one after the other, (atoms,)
        atom_forces.npy       …, one row an atom

What is missing is NaN, or -1 in whole numbers; a column that is missing everywhere has no file. A structure is read
with one small read a column, so a set can be larger than memory. The index is written last: a folder without it is not
complete.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from cliffordstf.errors import DataError
from cliffordstf.host.files import write_json

SUFFIX = ".shards"
INDEX = "index.json"
FORMAT, VERSION = "cliffordstf shards", 1
LABELS = ("energy", "forces", "stress")


@dataclass(frozen=True)
class Column:
    """An array of a shard.

    Attributes:
        kind: NumPy's name of its type.
        shape: Of a row.
        missing: What stands for a value that is not there; None for columns that are always complete.
    """

    kind: str
    shape: tuple[int, ...] = ()
    missing: float | None = None


STRUCTURE_COLUMNS: Mapping[str, Column] = {
    "atoms": Column("int64"),
    "cell": Column("float64", (3, 3)),
    "pbc": Column("bool", (3,)),
    "energy": Column("float64", (), np.nan),
    "stress": Column("float64", (3, 3), np.nan),
    "id": Column("int64", (), -1),
    "weights": Column("float64", (3,), 1.0),
    "config_type": Column("int64", (), -1),
}
ATOM_COLUMNS: Mapping[str, Column] = {
    "numbers": Column("uint8"),
    "positions": Column("float64", (3,)),
    "forces": Column("float64", (3,), np.nan),
    "fixed": Column("int8", (), -1),
    "tags": Column("int64", (), -1),
}


def file_of(folder: Path, name: str) -> Path:
    """The file of a column."""
    return folder / f"{'atom' if name in ATOM_COLUMNS else 'structure'}_{name}.npy"


@dataclass(frozen=True)
class ShardSummary:
    """What the index has of a shard.

    Attributes:
        name: Of its folder.
        structures, atoms: How many.
        elements: Atomic numbers that occur.
        labels: Structures with energy, forces and stress.
        config_types: Labels of kinds of structures, which the column counts.
    """

    name: str
    structures: int
    atoms: int
    elements: tuple[int, ...]
    labels: Mapping[str, int]
    config_types: tuple[str, ...] = ()


def is_shards(path: Path) -> bool:
    """Whether a folder holds shards of ours."""
    index = path / INDEX
    if not index.is_file():
        return False
    with index.open("rb") as stream:
        return f'"{FORMAT}"'.encode() in stream.read(200)


def write_index(path: Path, shards: Iterable[ShardSummary]) -> None:
    """Write the index, which makes the folder a data set."""
    write_json(path / INDEX, {"format": FORMAT, "version": VERSION, "shards": [asdict(shard) for shard in shards]})


def read_index(path: Path) -> Sequence[ShardSummary]:
    """The shards of a folder, in order.

    Raises:
        DataError: The index is damaged, or of a later version.
    """
    return _read_index(path, (path / INDEX).stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _read_index(path: Path, _modified: int) -> Sequence[ShardSummary]:
    try:
        values: dict[str, Any] = json.loads((path / INDEX).read_text(encoding="utf-8"))
        if values["version"] > VERSION:
            raise DataError(f"{path} was written by a later version of cliffordstf; install that version to read it.")
        return tuple(summary_from(item) for item in values["shards"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path / INDEX} is damaged ({error}); convert the data again.") from None


def summary_from(values: Mapping[str, Any]) -> ShardSummary:
    """A summary from its JSON."""
    name, structures, atoms = str(values["name"]), int(values["structures"]), int(values["atoms"])
    if not name.isdigit() or structures < 0 or atoms < 0:
        raise ValueError(f"a shard '{name:.40}' with {structures} structures and {atoms} atoms")
    return ShardSummary(
        name,
        structures,
        atoms,
        tuple(int(number) for number in values["elements"]),
        {label: int(values["labels"][label]) for label in LABELS},
        tuple(str(name) for name in values["config_types"]),
    )
