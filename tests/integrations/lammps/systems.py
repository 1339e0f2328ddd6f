"""Structures and models of the tests of LAMMPS."""

from pathlib import Path

import numpy as np
import torch
from ase import Atoms
from ase.build import bulk, fcc111, molecule

import cliffordstf
from cliffordstf.engine.export import export_native

ELEMENTS = ["H", "C", "O", "Cu"]


def ethanol() -> Atoms:
    atoms = molecule("CH3CH2OH")
    atoms.rattle(0.05, seed=3)
    return atoms


def triclinic() -> Atoms:
    atoms = bulk("Cu").repeat((5, 4, 4))
    strain = np.array([[0.03, 0.05, 0], [0, -0.02, 0.04], [0.02, 0, 0.01]])
    atoms.set_cell(atoms.cell.array @ (np.eye(3) + strain), scale_atoms=True)
    atoms.numbers[::7] = 8
    atoms.rattle(0.1, seed=1)
    return atoms


def slab() -> Atoms:
    atoms = fcc111("Cu", (4, 4, 3), vacuum=6.0, orthogonal=True)
    atoms.pbc = [True, True, False]
    atoms.numbers[[0, 7, 40]] = 1
    atoms.rattle(0.1, seed=2)
    return atoms


def small() -> Atoms:
    """A cell shorter than the cutoff, in which atoms are neighbours of their own images."""
    atoms = bulk("Cu", cubic=True)
    atoms.numbers[1] = 8
    atoms.rattle(0.1, seed=4)
    return atoms


def corner() -> Atoms:
    """A cluster in a corner of a large box: most ranks have no atoms, one of them ghosts."""
    atoms = molecule("CH3CH2OH")
    atoms.rattle(0.05, seed=5)
    atoms.cell = [24, 24, 24]
    atoms.pbc = True
    atoms.positions += 2.0 - atoms.positions.min(axis=0)
    return atoms


SYSTEMS = {each.__name__: each for each in (ethanol, triclinic, slab, small, corner)}


def make_model(path: Path, seed: int = 0, **options: object) -> cliffordstf.Potential:
    """Export an untrained model whose weights all matter; returns it in double precision."""
    options = {"channels": 8, "lmax": 2, "layers": 2, "cutoff": 4.0, **options}
    potential = cliffordstf.build("default", elements=[1, 6, 8, 29], seed=seed, energy_scale=0.8, **options).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in potential.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype))
    export_native(potential, path)
    return potential
