"""Phonons by phonopy's finite displacements, with any ASE calculator."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator as AseCalculator

from cliffordstf.data.structure import FloatArray
from cliffordstf.errors import ConfigError

if TYPE_CHECKING:
    from phonopy import Phonopy

Matrix = Sequence[int] | Sequence[Sequence[int]]


def phonons(
    atoms: Atoms,
    calculator: AseCalculator,
    supercell: Matrix = (2, 2, 2),
    displacement: float = 0.01,
    symmetrize: bool = True,
    symprec: float = 1e-5,
) -> "Phonopy":
    """Force constants of a crystal, ready for band structures, densities of states and thermal properties.

    Forces of the undisplaced supercell are subtracted, so that a small residual force does no harm. For a small cell
    the Γ point is cheaper by `cliffordstf.simulate.vibrations`.

    Args:
        atoms: Relaxed unit cell, periodic in three directions. If a smaller cell makes the same crystal, q points are
            those of that one, `phonon.primitive`.
        calculator: Any ASE calculator.
        supercell: Repeats along the lattice vectors, or a (3, 3) matrix of whole numbers. It should be wider than twice
            the range of the interactions.
        displacement: Å.
        symmetrize: Impose the acoustic sum rule and the symmetry of the force constants, which displacements fulfil
            approximately.
        symprec: Å, how far atoms may be from symmetric positions; a relaxed cell may need 1e-3.

    Returns:
        A `phonopy.Phonopy` with force constants in eV/Å² and frequencies in THz.

    Raises:
        ConfigError: The package phonopy is not installed, the structure is not a crystal, or a setting is wrong.

    Example:
        >>> from ase.build import bulk
        >>> from ase.calculators.emt import EMT
        >>> phonon = phonons(bulk("Cu", a=3.59), EMT(), (3, 3, 3))
        >>> _ = phonon.run_mesh((4, 4, 4), is_gamma_center=True)
        >>> bool(6 < phonon.mesh.frequencies.max() < 9)  # THz
        True
    """
    matrix = _supercell_matrix(supercell)
    if not atoms.pbc.all():
        raise ConfigError(
            f"{atoms.get_chemical_formula()} is not periodic in three directions, so it has no phonons; use vibrations."
        )
    if not displacement > 0:
        raise ConfigError(f"displacement={displacement} must be a length in Å above zero, for example 0.01.")
    cells, phonopy_class = _phonopy()
    cell = cells.PhonopyAtoms(
        symbols=atoms.get_chemical_symbols(),
        scaled_positions=atoms.get_scaled_positions(),
        cell=atoms.cell.array,
        masses=atoms.get_masses(),
    )
    primitive = cells.guess_primitive_matrix(cell, symprec)
    if abs(np.linalg.det(primitive)) > 0.99:
        primitive = np.eye(3)  # other lattice vectors of the same cell would only change the names of q points
    phonon = phonopy_class(cell, supercell_matrix=matrix, primitive_matrix=primitive, symprec=symprec)
    phonon.generate_displacements(distance=displacement)
    at_rest = _forces(phonon.supercell, calculator)
    displaced = [_forces(structure, calculator) for structure in phonon.supercells_with_displacements]
    phonon.forces = np.array(displaced) - at_rest
    phonon.produce_force_constants(show_drift=False)
    if symmetrize:
        phonon.symmetrize_force_constants(show_drift=False)
    return phonon


def _supercell_matrix(supercell: Matrix) -> Any:
    given = np.asarray(supercell)
    matrix = np.diag(given) if given.shape == (3,) else given
    is_whole = matrix.shape == (3, 3) and np.array_equal(matrix, np.round(matrix))
    if not is_whole or np.linalg.det(matrix) < 0.5:
        raise ConfigError(
            f"supercell={supercell} must be three repeats above zero or a (3, 3) matrix of whole numbers; "
            "for example, give (2, 2, 2)."
        )
    return matrix.astype(np.int64)


def _forces(structure: Any, calculator: AseCalculator) -> FloatArray:
    """Forces on the atoms of a phonopy structure, eV/Å, (atoms, 3)."""
    atoms = Atoms(structure.symbols, positions=structure.positions, cell=structure.cell, pbc=True)
    return np.array(calculator.get_forces(atoms), dtype=np.float64)


def _phonopy() -> tuple[Any, Any]:
    """The module of cells, and the class of calculations."""
    try:
        from phonopy import Phonopy  # noqa: PLC0415 - an optional package
        from phonopy.structure import cells  # noqa: PLC0415
    except ImportError:
        raise ConfigError(
            "phonons need the package phonopy, which is not installed: pip install 'cliffordstf[phonopy]'."
        ) from None
    return cells, Phonopy
