"""Properties of a molecule: geometry, normal modes, rotational constants."""

from dataclasses import dataclass

import numpy as np
from ase import Atoms, units

from cliffordstf.data.structure import FloatArray
from cliffordstf.integrations.ase import Calculator
from cliffordstf.simulate.guards import SimulationError
from cliffordstf.simulate.relax import RelaxSettings, relax
from cliffordstf.simulate.vibrations import vibrations

GHZ_PER_INVERSE_CM = units._c * 1e-7
"""GHz of one cm⁻¹."""


@dataclass(frozen=True)
class MoleculeProperties:
    """Equilibrium geometry of a molecule and its harmonic motion.

    Attributes:
        formula: Hill formula.
        energy_ev: At the minimum.
        max_force_ev_a: eV/Å, at the end of the relaxation.
        frequencies_cm: cm⁻¹, (modes,), ascending; an imaginary frequency is given as a negative number.
        imaginary: What moves in each mode with an imaginary frequency.
        zero_point_energy_ev: Of the real frequencies.
        rotational_constants_cm: cm⁻¹, descending; two equal ones for a linear molecule, none for an atom.
        rotational_constants_ghz: The same in GHz.
    """

    formula: str
    energy_ev: float
    max_force_ev_a: float
    frequencies_cm: FloatArray
    imaginary: tuple[str, ...]
    zero_point_energy_ev: float
    rotational_constants_cm: tuple[float, ...]
    rotational_constants_ghz: tuple[float, ...]


def molecule_properties(
    atoms: Atoms, calculator: Calculator, fmax: float = 1e-4, steps: int = 1000
) -> MoleculeProperties:
    """Relax a molecule in place and compute its normal modes from the analytic Hessian.

    Args:
        atoms: Without periodic directions.
        calculator: With a Hessian.
        fmax: eV/Å.
        steps: Most steps of the relaxation.

    Raises:
        SimulationError: The relaxation does not converge.

    Example:
        >>> from ase.build import molecule
        >>> found = molecule_properties(molecule("CH3CH2OH"), Calculator("ethanol-gfn2"))
        >>> len(found.frequencies_cm), found.imaginary, len(found.rotational_constants_cm)
        (21, (), 3)
    """
    result = relax(atoms, calculator, RelaxSettings(fmax=fmax, steps=steps))
    if not result.converged:
        raise SimulationError(
            f"{atoms.get_chemical_formula()} has a force of {result.max_force:.2g} eV/Å after {steps} steps, above "
            f"{fmax:g} eV/Å; allow more steps or a larger force."
        )
    modes = vibrations(atoms, calculator, max_force=max(fmax, 1e-12))
    rotations = rotational_constants(atoms)
    named = [_moving(atoms, mode) for f, mode in zip(modes.frequencies, modes.modes, strict=True) if f < 0]
    return MoleculeProperties(
        formula=atoms.get_chemical_formula(),
        energy_ev=result.energy,
        max_force_ev_a=result.max_force,
        frequencies_cm=modes.frequencies,
        imaginary=tuple(named),
        zero_point_energy_ev=modes.zero_point_energy,
        rotational_constants_cm=rotations,
        rotational_constants_ghz=tuple(GHZ_PER_INVERSE_CM * value for value in rotations),
    )


def rotational_constants(atoms: Atoms) -> tuple[float, ...]:
    """Rotational constants of a rigid molecule, cm⁻¹, descending; those of moments that are zero are left out.

    Example:
        >>> constants = rotational_constants(Atoms("CO", positions=[[0, 0, 0], [0, 0, 1.1283]]))
        >>> [round(value, 2) for value in constants]
        [1.93, 1.93]
    """
    moments = np.asarray(atoms.get_moments_of_inertia())
    planck = units._hbar * units.J * units.s  # eV and ASE's unit of time, in which amu Å² is an inertia
    found = moments[moments > 1e-4 * max(float(moments.max()), 1e-12)]
    return tuple(float(value) for value in planck**2 / (2 * found) / units.invcm)


def _moving(atoms: Atoms, mode: FloatArray, most: int = 3) -> str:
    """The atoms that move farthest in a mode, such as `H8 O2`."""
    lengths = np.linalg.norm(mode, axis=1)
    order = np.argsort(-lengths, kind="stable")[:most]
    return " ".join(f"{atoms.symbols[number]}{number}" for number in order if lengths[number] > 0.2 * lengths.max())
