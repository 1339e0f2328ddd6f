"""From raw records to frames in eV and Å."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cliffordstf.data.frame import Frame
from cliffordstf.data.readers.labels import Chosen
from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.data.structure import FloatArray, Structure
from cliffordstf.data.units import (
    AUTO,
    ENERGY_UNITS,
    LENGTH_UNITS,
    STRESS_UNITS,
    Units,
    force_factor,
    parse_energy_unit,
    parse_force_unit,
    parse_length_unit,
    parse_stress_unit,
)
from cliffordstf.errors import StructureError

HEAVIEST = 118


@dataclass(frozen=True)
class FileUnits:
    """Units of one file, by canonical name."""

    energy: str
    length: str
    forces: str
    stress: str

    def as_dict(self) -> dict[str, str]:
        """The names."""
        return {"energy": self.energy, "length": self.length, "forces": self.forces, "stress": self.stress}


def resolve_units(units: Units, contents: Contents, chosen: Chosen) -> FileUnits:
    """What the user says, else what the file says, else what the format is known to hold.

    Raises:
        ConfigError: The file states a unit that is not known.
    """
    stated = contents.key_units
    energy, length, stress = units.energy, units.length, units.stress
    if energy == AUTO:
        energy = parse_energy_unit(stated.get(chosen.energy or "", contents.energy_unit))
    if length == AUTO:
        length = parse_length_unit(stated.get("positions", contents.length_unit))
    if stress == AUTO:
        stress = parse_stress_unit(stated.get(chosen.stress or "", contents.stress_unit))
    forces = f"{energy}/{length}"
    if units.energy == AUTO and units.length == AUTO and chosen.forces in stated:
        forces = parse_force_unit(stated[chosen.forces or ""])
    return FileUnits(energy, length, forces, stress)


def to_frames(contents: Contents, chosen: Chosen, units: FileUnits, file: str) -> tuple[list[Frame], list[str]]:
    """Convert every record; the second value holds warnings.

    Raises:
        StructureError: A structure is broken; the message names file and frame.
    """
    frames = [
        _to_frame(record, chosen, units, _name(file, index, record)) for index, record in enumerate(contents.records)
    ]
    return frames, _dropped_stress(contents.records, frames, chosen)


def _name(file: str, index: int, record: Record) -> str:
    return f"{file}, frame {index}" + (f" ({record.label})" if record.label else "")


def _to_frame(record: Record, chosen: Chosen, units: FileUnits, name: str) -> Frame:
    unknown = (record.numbers < 1) | (record.numbers > HEAVIEST)
    if unknown.any():
        atom = int(np.flatnonzero(unknown)[0])
        raise StructureError(
            f"{name} has an atom without a chemical element (atom {atom}, number {int(record.numbers[atom])}); "
            "remove it or give its symbol."
        )
    # A box around a molecule means nothing: without a periodic direction there is no cell.
    cell = record.cell * LENGTH_UNITS[units.length] if record.pbc.any() else np.zeros((3, 3))
    positions = record.positions * LENGTH_UNITS[units.length]
    structure = Structure(record.numbers, positions, cell, record.pbc, name)
    energy = record.properties.get(chosen.energy or "")
    forces = record.properties.get(chosen.forces or "")
    return Frame(
        structure,
        energy=None if energy is None else float(np.ravel(energy)[0]) * ENERGY_UNITS[units.energy],
        forces=None if forces is None else np.asarray(forces, dtype=np.float64) * force_factor(units.forces),
        stress=_stress(record, chosen, units, abs(float(np.linalg.det(cell)))),
        fixed=record.fixed,
        tags=record.tags,
        id=record.id,
    )


def _stress(record: Record, chosen: Chosen, units: FileUnits, volume: float) -> FloatArray | None:
    if volume == 0:
        return None
    if chosen.stress in record.properties:
        return symmetric_matrix(record.properties[chosen.stress or ""]) * STRESS_UNITS[units.stress]
    if chosen.virial in record.properties:
        virial = symmetric_matrix(record.properties[chosen.virial or ""]) * ENERGY_UNITS[units.energy]
        return -virial / volume
    return None


def symmetric_matrix(values: ArrayLike) -> FloatArray:
    """A symmetric (3, 3) matrix from 9 numbers, or from 6 in Voigt order xx, yy, zz, yz, xz, xy."""
    array = np.asarray(values, dtype=np.float64).ravel()
    if array.size == 6:
        array = array[[0, 5, 4, 5, 1, 3, 4, 3, 2]]
    matrix = array.reshape(3, 3)
    return 0.5 * (matrix + matrix.T)


def _dropped_stress(records: list[Record], frames: list[Frame], chosen: Chosen) -> list[str]:
    key = chosen.stress or chosen.virial
    dropped = sum(
        key in record.properties and frame.stress is None for record, frame in zip(records, frames, strict=True)
    )
    return [f"'{key}' of {dropped} structures without a periodic cell was left out."] if key and dropped else []
