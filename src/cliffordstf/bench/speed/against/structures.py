"""The structures that both codes read from files: molecules, labelled data sets and boxes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ase
import ase.io
import numpy as np
from ase.calculators.singlepoint import SinglePointCalculator

from cliffordstf.bench.speed.systems import SHAKE, aspirin, copper_box, ethanol
from cliffordstf.data.structure import Structure

APART = 15.0
"""Å between molecules that are evaluated as one structure: farther than any cutoff."""
STIFFNESS = 10.0
"""eV/Å² of the springs that label a data set."""
LABELLED = 256
"""Structures of a data set, so many that no setting for small ones applies."""
MOLECULES: dict[str, Callable[[int], Structure]] = {"ethanol": ethanol, "aspirin": aspirin}
SMALL = 32
"""Atoms of the box that a process is warmed with."""


@dataclass(frozen=True)
class MoleculeFiles:
    """Files of one molecule.

    Attributes:
        one: A single molecule.
        many: A batch of them as one structure, far apart.
        data: A labelled data set.
    """

    one: Path
    many: Path
    data: Path


@dataclass(frozen=True)
class Inputs:
    """All files.

    Attributes:
        molecules: By name.
        boxes: By the number of atoms.
        small_box: To warm a process with.
    """

    molecules: dict[str, MoleculeFiles]
    boxes: dict[int, Path]
    small_box: Path


def write_inputs(folder: Path, batch: int, sizes: tuple[int, ...]) -> Inputs:
    """Write all files into a folder.

    Args:
        folder: Where.
        batch: Molecules that are evaluated as one structure.
        sizes: Of the boxes, atoms, about.
    """
    molecules = {}
    for name, make in MOLECULES.items():
        files = MoleculeFiles(folder / f"{name}.xyz", folder / f"{name}-{batch}.xyz", folder / f"{name}-data.xyz")
        ase.io.write(files.one, _atoms(make(0)), format="extxyz")
        ase.io.write(files.many, _far_apart([_atoms(make(seed)) for seed in range(batch)]), format="extxyz")
        ase.io.write(files.data, [labelled(make, seed) for seed in range(LABELLED)], format="extxyz")
        molecules[name] = files
    boxes = {}
    for size in sizes:
        box = _atoms(copper_box(size))
        boxes[len(box)] = folder / f"copper-{len(box)}.xyz"
        ase.io.write(boxes[len(box)], box, format="extxyz")
    small = folder / "copper-small.xyz"
    ase.io.write(small, _atoms(copper_box(SMALL)), format="extxyz")
    return Inputs(molecules, boxes, small)


def labelled(make: Callable[[int], Structure], seed: int) -> ase.Atoms:
    """A molecule with energy and forces of springs between its atoms and where they were before they were shaken."""
    atoms = _atoms(make(seed))
    # The random displacements of the molecule, drawn again.
    moved = np.random.default_rng(seed).normal(0, SHAKE, atoms.positions.shape)
    energy, forces = 0.5 * STIFFNESS * float((moved**2).sum()), -STIFFNESS * moved
    atoms.calc = SinglePointCalculator(atoms, energy=energy, forces=forces)
    return atoms


def _atoms(structure: Structure) -> ase.Atoms:
    return ase.Atoms(structure.numbers, structure.positions, cell=structure.cell, pbc=structure.pbc)


def _far_apart(molecules: list[ase.Atoms]) -> ase.Atoms:
    """All on a square grid."""
    side = int(np.ceil(len(molecules) ** 0.5))
    whole = ase.Atoms()
    for number, molecule in enumerate(molecules):
        row, column = divmod(number, side)
        molecule.translate((APART * row, APART * column, 0.0))
        whole += molecule
    return whole
