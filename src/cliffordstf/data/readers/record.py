"""What a reader hands over: the raw content of a file, before labels are chosen and units converted."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cliffordstf.data.stress_order import VOIGT
from cliffordstf.data.structure import FloatArray, IntArray

if TYPE_CHECKING:
    from ase import Atoms


MOMENTA = "momenta"
"""Key of the momenta of a structure of a simulation, in ASE's units."""


def system_id(name: str) -> int | None:
    """The number of a system of Open Catalyst, whose names are of the form `random1000100`; None for other names."""
    match = re.fullmatch(r"random(\d+)", name)
    return int(match.group(1)) if match else None


@dataclass(frozen=True)
class Record:
    """One structure as the file has it.

    Attributes:
        numbers: Atomic numbers, (atoms,).
        positions: (atoms, 3), in the file's unit of length.
        properties: Everything that could be a label, by its key in the file.
        cell: Lattice vectors as rows, (3, 3), in the file's unit of length.
        pbc: Periodic directions, (3,).
        label: What the file calls this structure, if it has a name of its own.
        fixed: Atoms that were held in place, (atoms,); None where the file does not say.
        tags: Whole numbers that sort the atoms, (atoms,); None where the file does not say.
        id: Whole number by which lists name this structure: gdb index, system id of Open Catalyst, PubChem's cid.
        atoms: The structure as ASE read it, where ASE did: with velocities, constraints and whatever else the file has.
    """

    numbers: IntArray
    positions: FloatArray
    properties: Mapping[str, Any]
    cell: FloatArray = field(default_factory=lambda: np.zeros((3, 3)))
    pbc: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(3, dtype=bool))
    label: str = ""
    fixed: NDArray[np.bool_] | None = None
    tags: NDArray[np.int64] | None = None
    id: int | None = None
    atoms: "Atoms | None" = None


@dataclass(frozen=True)
class Contents:
    """A file as its reader understood it.

    Attributes:
        format: Name of the format.
        records: The structures, in the file's order.
        energy_unit, length_unit, stress_unit: What the format is known to hold.
        key_units: Units that the file itself states, by key of `Record.properties`; these win over the format's.
        only_if_named: Keys that are never taken for a label unless the user names them.
        energy_key: The energy label of a format that has many properties; None is looked for.
        has_forces: False where the format never holds forces, so that nobody is warned of their absence.
        stress_order: Order of the shear components of a stress of six numbers; None where the format fixes none.
        config_key: Key of the label of the kind of structure, in formats that have one of their own.
        warnings: One sentence each.
        first: Number in the file of the first record.
    """

    format: str
    records: list[Record]
    energy_unit: str = "eV"
    length_unit: str = "Å"
    stress_unit: str = "eV/Å³"
    key_units: Mapping[str, str] = field(default_factory=dict)
    only_if_named: frozenset[str] = frozenset()
    energy_key: str | None = None
    has_forces: bool = True
    stress_order: str | None = VOIGT
    config_key: str | None = None
    warnings: tuple[str, ...] = ()
    first: int = 0


@dataclass(frozen=True)
class Source:
    """What a file, a folder or a pattern turned out to be.

    Attributes:
        path: As it was given.
        format: Name of the format; several are joined by ` + `.
        units: Units of `energy`, `length`, `forces` and `stress` in the file, before conversion.
        keys: Key that was used for `energy`, `forces` and `stress`; None where no label was found.
        warnings: One sentence each.
        has_forces: False where the format never holds forces.
    """

    path: Path
    format: str
    units: dict[str, str]
    keys: dict[str, str | None]
    warnings: tuple[str, ...]
    has_forces: bool = True
