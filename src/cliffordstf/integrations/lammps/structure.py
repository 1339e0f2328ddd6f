"""Structures for LAMMPS: its box, its data file, and the way back for what it prints."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ase import Atoms, units
from ase.calculators.lammps import Prism
from ase.cell import Cell
from ase.data import atomic_masses, atomic_numbers

from cliffordstf.data.structure import FloatArray
from cliffordstf.errors import ConfigError
from cliffordstf.host.files import write_text

MARGIN = 1.0
"""Å of box around atoms in directions without periodicity, where LAMMPS then shrinks it to the atoms."""


@dataclass(frozen=True)
class Box:
    """A structure as LAMMPS has it: turned so that the cell is a lower triangle, types instead of elements.

    Attributes:
        atoms: The structure as it was given.
        elements: Symbols of the types, type 1 first.
        prism: The turn, which takes vectors there and back.
        positions: Å, in the box, (atoms, 3).
    """

    atoms: Atoms
    elements: tuple[str, ...]
    prism: Prism
    positions: FloatArray

    @property
    def boundary(self) -> str:
        """Arguments of LAMMPS's `boundary`."""
        return " ".join("p" if periodic else "s" for periodic in self.atoms.pbc)

    def vectors_to_ase(self, vectors: FloatArray) -> FloatArray:
        """Vectors of LAMMPS's frame, (atoms, 3), in that of the structure."""
        turned: FloatArray = np.asarray(self.prism.vector_to_ase(vectors))
        return turned

    def write(self, path: Path) -> None:
        """Write a data file for `atom_style atomic` and `units metal`."""
        write_text(path, self._text())

    def _text(self) -> str:
        lx, ly, lz, xy, xz, yz = (float(v) for v in self.prism.get_lammps_prism())
        name = self.atoms.get_chemical_formula()
        lines = [f"{name}, written by cliffordstf", "", f"{len(self.atoms)} atoms", f"{len(self.elements)} atom types"]
        lines += [f"0 {length!r} {axis}lo {axis}hi" for axis, length in zip("xyz", (lx, ly, lz), strict=True)]
        if self.prism.is_skewed():
            lines.append(f"{xy!r} {xz!r} {yz!r} xy xz yz")
        lines += ["", "Masses", ""]
        lines += [
            f"{index} {float(atomic_masses[atomic_numbers[element]])!r} # {element}"
            for index, element in enumerate(self.elements, start=1)
        ]
        lines += ["", "Atoms # atomic", ""]
        kinds = [self.elements.index(symbol) + 1 for symbol in self.atoms.get_chemical_symbols()]
        rows = zip(kinds, self.positions, strict=True)
        lines += [f"{i} {kind} {x!r} {y!r} {z!r}" for i, (kind, (x, y, z)) in enumerate(_floats(rows), start=1)]
        if self.atoms.has("momenta"):
            per_ps = np.asarray(self.prism.vector_to_lammps(self.atoms.get_velocities())) * 1000 * units.fs
            lines += ["", "Velocities", ""]
            lines += [f"{i} {float(x)!r} {float(y)!r} {float(z)!r}" for i, (x, y, z) in enumerate(per_ps, start=1)]
        return "\n".join([*lines, ""])


def _floats(rows: "zip[tuple[int, FloatArray]]") -> list[tuple[int, list[float]]]:
    return [(kind, [float(x) for x in position]) for kind, position in rows]


def make_box(atoms: Atoms, elements: Sequence[str] | None = None) -> Box:
    """A structure's box.

    Args:
        atoms: With masses of the elements; the directions of missing or unused cell vectors are made here.
        elements: Symbols of the types in their order; by default those of the structure, sorted.

    Raises:
        ConfigError: The structure has no atoms, an element that is not listed, or a cell without volume.
    """
    symbols = set(atoms.get_chemical_symbols())
    types = tuple(sorted(symbols)) if elements is None else tuple(elements)
    if not len(atoms):
        raise ConfigError("a structure without atoms cannot be written for LAMMPS.")
    if not symbols <= set(types):
        raise ConfigError(
            f"the structure has {', '.join(sorted(symbols - set(types)))}, which no atom type stands for."
        )
    vectors = np.array(atoms.cell.array)
    vectors[~atoms.pbc] = 0
    if np.linalg.matrix_rank(vectors) < int(atoms.pbc.sum()):
        raise ConfigError("the structure is periodic in a direction in which its cell has no length.")
    cell = Cell(vectors).complete()
    fractions = np.asarray(cell.scaled_positions(atoms.positions))
    lengths = np.array(cell.lengths())
    for axis in np.flatnonzero(~atoms.pbc):
        along = (fractions[:, axis] - fractions[:, axis].min()) * lengths[axis] + MARGIN
        length = along.max() + MARGIN
        fractions[:, axis] = along / length
        cell[axis] *= length / lengths[axis]
    prism = Prism(cell.array, pbc=atoms.pbc)
    positions = np.asarray(prism.vector_to_lammps(fractions @ cell.array))
    return Box(atoms, types, prism, positions)
