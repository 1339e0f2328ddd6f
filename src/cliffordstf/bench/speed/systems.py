"""The systems that speed is measured on; made here, so that a benchmark needs no data file."""

import ase.build
import numpy as np

from cliffordstf.data.structure import Structure, as_structure

ASPIRIN: tuple[tuple[str, float, float, float], ...] = (
    ("C", 1.8337, -1.5368, -0.1761),
    ("C", 1.2363, 1.1302, -0.6538),
    ("C", 2.7405, -0.7337, -0.8399),
    ("C", 2.4391, 0.5970, -1.0819),
    ("C", -2.9453, 1.8762, 0.4431),
    ("C", 0.6107, -1.0235, 0.2508),
    ("C", 0.3217, 0.3266, 0.0108),
    ("O", -1.5544, -1.6531, 1.0622),
    ("O", -1.5063, 1.6887, -1.4842),
    ("O", 0.1500, -3.0597, 1.3295),
    ("C", -0.3852, -1.8996, 0.9111),
    ("C", -1.7142, 1.4850, -0.3211),
    ("O", -0.8573, 0.8428, 0.5006),
    ("H", -0.5391, -3.6049, 1.7401),
    ("H", 2.0544, -2.5758, 0.0106),
    ("H", 0.9968, 2.1661, -0.8356),
    ("H", 3.6810, -1.1453, -1.1724),
    ("H", 3.1437, 1.2269, -1.6035),
    ("H", -2.6785, 2.5856, 1.2231),
    ("H", -3.6714, 2.3193, -0.2312),
    ("H", -3.3560, 0.9881, 0.9178),
)
"""Aspirin, C9H8O4, relaxed with GFN2-xTB; Å."""

SHAKE = 0.05
"""Å, standard deviation of random displacements."""


def aspirin(seed: int) -> Structure:
    """An aspirin molecule with random displacements."""
    atoms = ase.Atoms([row[0] for row in ASPIRIN], positions=[row[1:] for row in ASPIRIN])
    return _shaken(atoms, seed)


def ethanol(seed: int) -> Structure:
    """An ethanol molecule with random displacements."""
    return _shaken(ase.build.molecule("CH3CH2OH"), seed)


def copper_box(atoms: int, seed: int = 0) -> Structure:
    """About so many atoms of fcc copper in a periodic cube, with random displacements."""
    cells = max(2, round((atoms / 4) ** (1 / 3)))
    return _shaken(ase.build.bulk("Cu", cubic=True).repeat(cells), seed)


SPACING = 3.107
"""Å between water molecules on a grid that has the density of the liquid, 30.0 Å³ a molecule."""


def water_box(molecules: int, seed: int = 0) -> Structure:
    """Water of the density of the liquid in a periodic box: molecules on a disturbed grid, turned at random.

    Args:
        molecules: Their number; a multiple of 24 makes a box of 4 by 6 by n molecules, which is at least 12 Å wide.
        seed: Of orientations and displacements.
    """
    counts = (4, 6, molecules // 24)
    if np.prod(counts) != molecules or molecules < 96:
        raise ValueError(f"{molecules} water molecules make no grid of 4 by 6 by at least 4; take 96, 120, 144, …")
    random = np.random.default_rng(seed)
    whole = ase.Atoms(cell=np.array(counts) * SPACING, pbc=True)
    for place in np.ndindex(counts):
        molecule = ase.build.molecule("H2O")
        phi, theta, psi = random.uniform(0, 360), np.degrees(np.arccos(random.uniform(-1, 1))), random.uniform(0, 360)
        molecule.euler_rotate(phi, theta, psi, center="COM")
        molecule.translate(SPACING * (np.array(place) + 0.5) + random.normal(0, SHAKE, 3))
        whole += molecule
    return _shaken(whole, seed)


def _shaken(atoms: ase.Atoms, seed: int) -> Structure:
    atoms.positions += np.random.default_rng(seed).normal(0, SHAKE, atoms.positions.shape)
    return as_structure(atoms)
