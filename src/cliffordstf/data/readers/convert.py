"""From raw records to frames in eV and Å."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cliffordstf.data.frame import Frame
from cliffordstf.data.options import ReadOptions
from cliffordstf.data.readers.atoms import to_atoms
from cliffordstf.data.readers.labels import Chosen
from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.data.readers.stress import dropped_stress, known_orders, symmetric_matrix
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
from cliffordstf.errors import DataError, StructureError

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
    forces = units.forces
    if forces == AUTO:
        forces = f"{energy}/{length}"
        if units.energy == AUTO and units.length == AUTO and chosen.forces in stated:
            forces = parse_force_unit(stated[chosen.forces or ""])
    return FileUnits(energy, length, forces, stress)


def to_frames(
    contents: Contents, chosen: Chosen, units: FileUnits, file: str, options: ReadOptions, keep_atoms: bool = False
) -> tuple[list[Frame], list[str]]:
    """Convert every record; the second value holds warnings.

    Args:
        contents: Of the file.
        chosen: Keys of the labels.
        units: Of the file.
        file: Its name.
        options: How to read it.
        keep_atoms: Keep each structure as ASE has it, too.

    Raises:
        StructureError: A structure is broken; the message names file and frame.
    """
    records = contents.records
    label = _ConfigLabel(options.config_type, contents.config_key)
    frames = [
        _to_frame(record, chosen, units, _name(file, index, record), label)
        for index, record in enumerate(records, start=contents.first)
    ]
    warnings: list[str] = []
    key = chosen.stress or chosen.virial
    if key is not None:
        asked = contents.stress_order if options.stress_order == AUTO else options.stress_order
        orders, warnings = known_orders(frames, records, key, asked)
        frames = [
            replace(frame, stress=_stress(record, chosen, units, frame.structure, order))
            for frame, record, order in zip(frames, records, orders, strict=True)
        ]
    if keep_atoms:
        frames = [replace(frame, atoms=to_atoms(record, frame)) for frame, record in zip(frames, records, strict=True)]
    return frames, [*warnings, *dropped_stress(records, frames, key)]


def _name(file: str, index: int, record: Record) -> str:
    return f"{file}, frame {index}" + (f" ({record.label})" if record.label else "")


CONFIG_TYPE = "config_type"
"""Key of the label of the kind of structure in extended XYZ, as several programs write it."""
NO_LABEL = ("none", "file")


@dataclass(frozen=True)
class _ConfigLabel:
    """Where the label of the kind of structure is.

    Attributes:
        asked: By the user: a key, or auto, none or file.
        of_format: Key of a format that has one of its own.
    """

    asked: str
    of_format: str | None

    def of(self, record: Record) -> str | None:
        if self.asked in NO_LABEL:
            return None
        keys = (CONFIG_TYPE, self.of_format) if self.asked == AUTO else (self.asked,)
        value = next((record.properties[key] for key in keys if key is not None and key in record.properties), None)
        return None if value is None or np.size(value) != 1 else str(np.asarray(value).item())


def _to_frame(record: Record, chosen: Chosen, units: FileUnits, name: str, label: _ConfigLabel) -> Frame:
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
        energy=None if energy is None else float(_numbers(energy, "energy", name).flat[0]) * ENERGY_UNITS[units.energy],
        forces=None if forces is None else _numbers(forces, "forces", name) * force_factor(units.forces),
        fixed=record.fixed,
        tags=record.tags,
        id=record.id,
        config_type=label.of(record),
        weights=_weights(record, name),
    )


def _numbers(value: Any, label: str, name: str) -> FloatArray:
    """A label as an array with at least one axis, refused where it is something else than numbers."""
    array = np.atleast_1d(np.asarray(value))
    if array.dtype.kind not in "fiub" or array.size == 0:
        raise DataError(f"{name} holds '{value!s:.40}' for its {label}, where numbers are needed; correct the file.")
    return array.astype(np.float64)


WEIGHTS = (("config_energy_weight",), ("config_forces_weight",), ("config_stress_weight", "config_virials_weight"))
"""Keys of the weights of energy, forces and stress of a structure, which multiply its `config_weight`."""


def _weights(record: Record, name: str) -> tuple[float, float, float]:
    whole = _weight(record, ("config_weight",), name)
    energy, forces, stress = (whole * _weight(record, keys, name) for keys in WEIGHTS)
    return energy, forces, stress


def _weight(record: Record, keys: tuple[str, ...], name: str) -> float:
    key = next((key for key in keys if key in record.properties), None)
    if key is None:
        return 1.0
    value = np.asarray(record.properties[key])
    if value.size != 1 or value.dtype.kind not in "fiub" or not np.isfinite(value).all() or float(value.item()) < 0:
        raise DataError(f"{name} has {key}={record.properties[key]}, but a weight is a number that is not negative.")
    return float(value.item())


def _stress(
    record: Record, chosen: Chosen, units: FileUnits, structure: Structure, order: str | None
) -> FloatArray | None:
    volume = abs(float(np.linalg.det(structure.cell)))
    if volume == 0:
        return None
    if chosen.stress in record.properties:
        return symmetric_matrix(record.properties[chosen.stress or ""], order) * STRESS_UNITS[units.stress]
    if chosen.virial in record.properties:
        virial = symmetric_matrix(record.properties[chosen.virial or ""], order) * ENERGY_UNITS[units.energy]
        return -virial / volume
    return None
