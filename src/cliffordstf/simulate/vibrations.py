"""Harmonic vibrations from the Hessian of a potential."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from ase import Atoms, units
from ase.constraints import FixAtoms
from ase.vibrations import VibrationsData

from cliffordstf.data.structure import FloatArray, IntArray
from cliffordstf.errors import ConfigError
from cliffordstf.integrations.ase import Calculator
from cliffordstf.model.potential import Potential

MAX_FORCE = 0.05
"""eV/Å, above which a structure is not accepted as a stationary point by default."""

INDEPENDENT = 1e-4
"""Singular value, relative to the largest, above which a rigid motion is one of its own: 0.01° off a line is linear."""


class HasHessian(Protocol):
    """A calculator with second derivatives: ours, and some of ASE."""

    def get_forces(self, atoms: Atoms) -> FloatArray:
        """eV/Å, (atoms, 3)."""
        ...

    def get_hessian(self, atoms: Atoms) -> FloatArray:
        """eV/Å², (3 · atoms, 3 · atoms)."""
        ...


@dataclass(frozen=True, eq=False)
class Vibrations:
    """Harmonic vibrations of a structure, without its rigid motions.

    Attributes:
        frequencies: cm⁻¹, (modes,), ascending; an imaginary frequency is given as a negative number.
        modes: Cartesian displacements of length 1, (modes, atoms, 3).
        zero_modes: Rigid motions that were projected out: 6 for a molecule, 5 for a linear one, 3 for a crystal.
        max_force: eV/Å, largest force on a free atom; frequencies are defined where it is zero.
        data: ASE's object for thermochemistry, densities of states and files, of the projected Hessian.
    """

    frequencies: FloatArray
    modes: FloatArray
    zero_modes: int
    max_force: float
    data: VibrationsData = field(repr=False, compare=False)

    @property
    def zero_point_energy(self) -> float:
        """Half the sum of the real frequencies, eV."""
        return float(0.5 * units.invcm * self.frequencies[self.frequencies > 0].sum())


def vibrations(atoms: Atoms, source: Potential | HasHessian, max_force: float = MAX_FORCE) -> Vibrations:
    """Harmonic frequencies and modes of a relaxed structure.

    Atoms held by `ase.constraints.FixAtoms` do not move. Translations, and rotations where nothing prevents them, are
    projected out of the Hessian. A periodic structure has the vibrations of the Γ point of its cell.

    Args:
        atoms: At a stationary point.
        source: A potential, or a calculator with `get_hessian(atoms)`, for example `cliffordstf.Calculator`.
        max_force: eV/Å, limit on the force on a free atom; `float("inf")` accepts any structure.

    Raises:
        ConfigError: The structure is not relaxed, or has constraints other than fixed atoms.

    Example:
        >>> import cliffordstf
        >>> from ase.build import molecule
        >>> from cliffordstf.simulate.relax import RelaxSettings, relax
        >>> atoms, calculator = molecule("CH3CH2OH"), cliffordstf.Calculator("ethanol-gfn2")
        >>> _ = relax(atoms, calculator, RelaxSettings(fmax=0.001))
        >>> len(vibrations(atoms, calculator).frequencies)
        21
    """
    calculator: HasHessian = Calculator(source) if isinstance(source, Potential) else source
    free = _free_atoms(atoms)
    largest = float(np.linalg.norm(calculator.get_forces(atoms)[free], axis=1).max())
    if not largest <= max_force:
        raise ConfigError(
            f"the largest force on {atoms.get_chemical_formula()} is {largest:.3g} eV/Å, above the limit of "
            f"{max_force:g} eV/Å, so it has no harmonic frequencies; relax it first, for example to 0.001 eV/Å."
        )
    hessian = calculator.get_hessian(atoms).reshape(len(atoms), 3, len(atoms), 3)
    size = 3 * len(free)
    rigid = rigid_motions(atoms, free)
    projected = _without(rigid, hessian[free][:, :, free].reshape(size, size), atoms.get_masses()[free])
    data = VibrationsData(atoms, projected.reshape(len(free), 3, len(free), 3), indices=free)
    energies, modes = data.get_energies_and_modes(all_atoms=True)
    frequencies = (energies.real - energies.imag) / units.invcm
    # What was projected out has the smallest frequencies: zero but for rounding.
    kept = np.sort(np.argsort(np.abs(frequencies), kind="stable")[len(rigid) :])
    lengths = np.linalg.norm(modes[kept], axis=(1, 2))
    return Vibrations(frequencies[kept], modes[kept] / lengths[:, None, None], len(rigid), largest, data)


def rigid_motions(atoms: Atoms, free: IntArray | None = None) -> FloatArray:
    """Orthonormal rigid motions of the free atoms in mass-weighted coordinates, (motions, 3 · free).

    Args:
        atoms: Rotations change the energy of a periodic structure, except around its one periodic direction.
        free: Numbers of the atoms that may move; a motion leaves all others where they are. All by default.
    """
    free = np.arange(len(atoms)) if free is None else free
    masses = atoms.get_masses()
    arms = atoms.positions - np.average(atoms.positions, axis=0, weights=masses)
    # A common length makes rotations comparable with translations.
    arms = arms / max(float(np.linalg.norm(arms, axis=1).max()), 1e-3)
    turns = [np.cross(axis, arms) for axis in _rotation_axes(atoms)]
    shifts = [np.broadcast_to(axis, arms.shape) for axis in np.eye(3)]
    motions = np.array([*shifts, *turns]).reshape(-1, len(atoms), 3)
    held = np.setdiff1d(np.arange(len(atoms)), free)
    if len(held):
        motions = np.tensordot(_null_space(motions[:, held].reshape(len(motions), -1)), motions, axes=1)
    weighted = (motions[:, free] * np.sqrt(masses[free])[:, None]).reshape(len(motions), 3 * len(free))
    if len(weighted) == 0:
        return weighted
    _, sizes, basis = np.linalg.svd(weighted, full_matrices=False)
    independent: FloatArray = basis[sizes > INDEPENDENT * sizes[0]]
    return independent


def _null_space(rows: FloatArray) -> FloatArray:
    """Combinations of rows that vanish, (combinations, rows)."""
    combinations, sizes, _ = np.linalg.svd(rows)
    padded = np.zeros(len(rows))
    padded[: len(sizes)] = sizes
    vanishing: FloatArray = combinations.T[padded <= INDEPENDENT * max(float(padded[0]), 1e-12)]
    return vanishing


def _rotation_axes(atoms: Atoms) -> FloatArray:
    """Axes around which the structure can be turned at no cost, (axes, 3)."""
    if not atoms.pbc.any():
        return np.eye(3)
    if atoms.pbc.sum() > 1:
        return np.zeros((0, 3))
    direction = atoms.cell.array[atoms.pbc]
    return np.asarray(direction / np.linalg.norm(direction))


def _without(rigid: FloatArray, hessian: FloatArray, masses: FloatArray) -> FloatArray:
    """The Hessian with rigid motions projected out, and symmetric to the last bit."""
    roots = np.repeat(np.sqrt(masses), 3)
    projector = np.eye(len(hessian)) - rigid.T @ rigid
    projected = projector @ (hessian / np.outer(roots, roots)) @ projector
    return np.asarray(0.5 * (projected + projected.T) * np.outer(roots, roots))


def _free_atoms(atoms: Atoms) -> IntArray:
    other = [type(constraint).__name__ for constraint in atoms.constraints if not isinstance(constraint, FixAtoms)]
    if other:
        raise ConfigError(f"vibrations with the constraint {other[0]} are not supported; hold atoms with FixAtoms.")
    free = np.asarray(VibrationsData.indices_from_constraints(atoms), dtype=np.int64)
    if len(free) == 0:
        raise ConfigError(f"all atoms of {atoms.get_chemical_formula()} are fixed, so it has no vibrations.")
    return free
