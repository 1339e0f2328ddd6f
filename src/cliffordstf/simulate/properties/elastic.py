"""Elastic tensor of a crystal with relaxed ions, and the moduli of its polycrystal."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator as AseCalculator
from ase.stress import voigt_6_to_full_3x3_strain

from cliffordstf.data.structure import FloatArray
from cliffordstf.errors import ConfigError
from cliffordstf.simulate.guards import SimulationError
from cliffordstf.simulate.relax import RelaxSettings, relax


def strained(atoms: Atoms, strain: FloatArray) -> Atoms:
    """A copy of a crystal under a symmetric strain, without constraints; atoms move with the cell.

    Args:
        atoms: Periodic in three directions.
        strain: Voigt order xx, yy, zz, yz, xz, xy with engineering shears, (6,).
    """
    found: Atoms = atoms.copy()
    found.set_constraint()
    # ASE's function adds the identity.
    found.set_cell(atoms.cell.array @ voigt_6_to_full_3x3_strain(strain), scale_atoms=True)
    return found


def elastic_tensor(
    atoms: Atoms,
    calculator: AseCalculator,
    strain: float = 0.005,
    fmax: float = 1e-4,
    steps: int = 1000,
    on_strain: Callable[[int], None] | None = None,
) -> FloatArray:
    """Elastic tensor from central differences of the stress; positions are relaxed under each of twelve strains.

    Args:
        atoms: Relaxed crystal, cell included. Elements refer to the Cartesian axes that it is given in.
        calculator: Any ASE calculator with stress.
        strain: Largest element of each strain.
        fmax: eV/Å, to which positions are relaxed.
        steps: Most steps of each relaxation.
        on_strain: Called with the number of strains that are done.

    Returns:
        GPa, (6, 6), Voigt order xx, yy, zz, yz, xz, xy, made symmetric.

    Raises:
        ConfigError: The structure is not a crystal, or the strain is not positive.
        SimulationError: A relaxation does not converge.

    Example:
        >>> from ase.build import bulk
        >>> from ase.calculators.emt import EMT
        >>> tensor = elastic_tensor(bulk("Cu", a=3.59), EMT())
        >>> bool(tensor[0, 0] > tensor[0, 1] > tensor[3, 3] > 50)
        True
    """
    if not atoms.pbc.all():
        raise ConfigError(
            f"{atoms.get_chemical_formula()} is not periodic in three directions, so it has no elastic tensor."
        )
    if not 0 < strain < 0.1:
        raise ConfigError(f"strain={strain:g} must be between 0 and 0.1, for example 0.005.")
    columns = []
    for number, direction in enumerate(np.eye(6)):
        stresses = []
        for sign in (1, -1):
            copy = strained(atoms, sign * strain * direction)
            result = relax(copy, calculator, RelaxSettings(fmax=fmax, steps=steps))
            if not result.converged or result.stress_gpa is None:
                raise SimulationError(
                    f"strain {number + 1} of 6: forces are {result.max_force:.2g} eV/Å after {steps} steps, above "
                    f"{fmax:g} eV/Å; allow more steps or a larger force."
                )
            stresses.append(result.stress_gpa)
            if on_strain is not None:
                on_strain(2 * number + (1 if sign > 0 else 2))
        columns.append((stresses[0] - stresses[1]) / (2 * strain))
    tensor = np.array(columns)
    return np.asarray(0.5 * (tensor + tensor.T))


@dataclass(frozen=True)
class Moduli:
    """Moduli of a polycrystal after Voigt, Reuss and Hill, and mechanical stability.

    Attributes:
        stable: Whether every small strain costs energy: all eigenvalues are positive.
        eigenvalues_gpa: Of the tensor in orthonormal strain coordinates, ascending, (6,).
        bulk_voigt_gpa, shear_voigt_gpa: Upper bounds.
        bulk_reuss_gpa, shear_reuss_gpa: Lower bounds; None if the crystal is not stable, as are all below.
        bulk_hill_gpa, shear_hill_gpa: Means of the bounds.
        young_gpa, poisson: Of the means.
        anisotropy: Universal index of Ranganathan and Ostoja-Starzewski; 0 for an isotropic crystal.
    """

    stable: bool
    eigenvalues_gpa: FloatArray
    bulk_voigt_gpa: float
    shear_voigt_gpa: float
    bulk_reuss_gpa: float | None = None
    shear_reuss_gpa: float | None = None
    bulk_hill_gpa: float | None = None
    shear_hill_gpa: float | None = None
    young_gpa: float | None = None
    poisson: float | None = None
    anisotropy: float | None = None


def moduli(tensor: FloatArray) -> Moduli:
    """Moduli and stability from an elastic tensor in GPa, (6, 6).

    Example:
        >>> found = moduli(np.diag([2.0, 2.0, 2.0, 0.5, 0.5, 0.5]) + 1.0 * np.pad(np.ones((3, 3)), (0, 3)))
        >>> found.stable, round(found.bulk_hill_gpa, 3), round(found.shear_voigt_gpa, 3)
        (True, 1.667, 0.7)
    """
    normal: FloatArray = tensor[:3, :3]
    shear = np.trace(tensor[3:, 3:])
    bulk_voigt = float(normal.sum() / 9)
    shear_voigt = float((1.5 * np.trace(normal) - 0.5 * normal.sum() + 3 * shear) / 15)
    roots = np.sqrt([1.0, 1.0, 1.0, 2.0, 2.0, 2.0])
    eigenvalues = np.linalg.eigvalsh(tensor * np.outer(roots, roots))
    if not eigenvalues[0] > 0:
        return Moduli(False, eigenvalues, bulk_voigt, shear_voigt)
    compliance = np.asarray(np.linalg.inv(tensor), dtype=np.float64)
    normal = compliance[:3, :3]
    shear = np.trace(compliance[3:, 3:])
    bulk_reuss = float(1 / normal.sum())
    shear_reuss = float(15 / (6 * np.trace(normal) - 2 * normal.sum() + 3 * shear))
    bulk, stiffness = 0.5 * (bulk_voigt + bulk_reuss), 0.5 * (shear_voigt + shear_reuss)
    return Moduli(
        stable=True,
        eigenvalues_gpa=eigenvalues,
        bulk_voigt_gpa=bulk_voigt,
        shear_voigt_gpa=shear_voigt,
        bulk_reuss_gpa=bulk_reuss,
        shear_reuss_gpa=shear_reuss,
        bulk_hill_gpa=bulk,
        shear_hill_gpa=stiffness,
        young_gpa=9 * bulk * stiffness / (3 * bulk + stiffness),
        poisson=(3 * bulk - 2 * stiffness) / (2 * (3 * bulk + stiffness)),
        anisotropy=5 * shear_voigt / shear_reuss + bulk_voigt / bulk_reuss - 6,
    )
