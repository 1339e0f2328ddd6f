"""A structure that was read as an ASE object, with everything else that its file holds."""

from typing import TYPE_CHECKING

import numpy as np
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms
from ase.stress import full_3x3_to_voigt_6_stress

from cliffordstf.data.readers.record import MOMENTA, Record

if TYPE_CHECKING:
    from cliffordstf.data.frame import Frame


def to_atoms(record: Record, frame: "Frame") -> Atoms:
    """The structure for ASE.

    Args:
        record: As its file has it; where ASE read it, velocities, constraints and further columns stay.
        frame: The same in eV and Å.
    """
    if record.atoms is not None:
        atoms = record.atoms
        atoms.set_cell(frame.structure.cell if frame.structure.pbc.any() else atoms.cell)
        atoms.set_positions(frame.structure.positions, apply_constraint=False)
        return atoms
    atoms = labelled_atoms(frame)
    if MOMENTA in record.properties:
        atoms.set_momenta(np.asarray(record.properties[MOMENTA]), apply_constraint=False)
    return atoms


def labelled_atoms(frame: "Frame") -> Atoms:
    """A frame for ASE, with its labels as results of a calculator, in eV and Å."""
    structure = frame.structure
    atoms = Atoms(structure.numbers, structure.positions, cell=structure.cell, pbc=structure.pbc)
    if frame.fixed is not None:
        atoms.set_constraint(FixAtoms(mask=frame.fixed))
    if frame.tags is not None:
        atoms.set_tags(frame.tags)
    if frame.config_type is not None:
        atoms.info["config_type"] = frame.config_type
    if frame.id is not None:
        atoms.info["id"] = frame.id
    labels = {"energy": frame.energy, "forces": frame.forces, "stress": _voigt(frame)}
    atoms.calc = SinglePointCalculator(atoms, **{name: value for name, value in labels.items() if value is not None})
    return atoms


def _voigt(frame: "Frame") -> np.ndarray | None:
    if frame.stress is None or not np.isfinite(frame.stress).all():
        return None
    return np.asarray(full_3x3_to_voigt_6_stress(frame.stress))
