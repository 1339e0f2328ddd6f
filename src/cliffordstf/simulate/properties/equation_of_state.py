"""Energy of a crystal over its volume."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator as AseCalculator
from ase.eos import EquationOfState as AseEquationOfState
from ase.eos import birchmurnaghan

from cliffordstf.data.structure import FloatArray
from cliffordstf.errors import ConfigError
from cliffordstf.simulate.guards import SimulationError
from cliffordstf.simulate.relax import RelaxSettings, relax
from cliffordstf.simulate.stress import in_gpa


@dataclass(frozen=True)
class EquationOfState:
    """Birch-Murnaghan equation of state, fitted to energies at several volumes.

    Attributes:
        volumes_a3: Å³, of the given cell, (points,).
        energies_ev: eV, (points,).
        volume_a3: Å³, of the minimum.
        energy_ev: eV, at the minimum.
        bulk_modulus_gpa: At the minimum.
        derivative: Of the bulk modulus with respect to pressure.
    """

    volumes_a3: FloatArray
    energies_ev: FloatArray
    volume_a3: float
    energy_ev: float
    bulk_modulus_gpa: float
    derivative: float

    def energy(self, volumes: FloatArray) -> FloatArray:
        """The fitted curve, eV, at volumes in Å³."""
        modulus = self.bulk_modulus_gpa / in_gpa(1.0)
        return np.asarray(birchmurnaghan(volumes, self.energy_ev, modulus, self.derivative, self.volume_a3))


def equation_of_state(
    atoms: Atoms,
    calculator: AseCalculator,
    span: float = 0.06,
    points: int = 7,
    fmax: float = 1e-4,
    steps: int = 1000,
    on_volume: Callable[[int], None] | None = None,
) -> EquationOfState:
    """Equation of state of a crystal; positions and the shape of the cell are relaxed at each volume.

    Args:
        atoms: Relaxed crystal; its constraints, such as a held symmetry, apply.
        calculator: Any ASE calculator with stress.
        span: Largest change of the volume, relative.
        points: Number of volumes, at least 5.
        fmax: eV/Å, to which positions and shape are relaxed.
        steps: Most steps of each relaxation.
        on_volume: Called with the number of volumes that are done.

    Raises:
        ConfigError: The structure is not a crystal, or a setting is wrong.
        SimulationError: A relaxation does not converge, or the energy has no minimum between the volumes.

    Example:
        >>> from ase.build import bulk
        >>> from ase.calculators.emt import EMT
        >>> found = equation_of_state(bulk("Cu", a=3.59), EMT())
        >>> round((4 * found.volume_a3) ** (1 / 3), 2)  # Å
        3.59
    """
    if not 0 < span < 0.5 or points < 5:
        raise ConfigError(f"span={span:g} must be between 0 and 0.5, and points={points} at least 5.")
    volumes, energies = [], []
    for number, change in enumerate(np.linspace(-span, span, points)):
        copy = atoms.copy()
        copy.set_constraint()
        copy.set_cell(atoms.cell.array * (1 + change) ** (1 / 3), scale_atoms=True)
        copy.set_constraint(atoms.constraints)
        settings = RelaxSettings(fmax=fmax, steps=steps, cell=True, constant_volume=True)
        result = relax(copy, calculator, settings)
        if not result.converged:
            raise SimulationError(
                f"volume {number + 1} of {points}: forces are {result.max_force:.2g} eV/Å after {steps} steps, and the "
                f"limit is {fmax:g}; allow more steps, a larger force or a smaller span."
            )
        volumes.append(copy.get_volume())
        energies.append(result.energy)
        if on_volume is not None:
            on_volume(number + 1)
    return _fit(np.array(volumes), np.array(energies))


def _fit(volumes: FloatArray, energies: FloatArray) -> EquationOfState:
    fit = AseEquationOfState(volumes, energies, eos="birchmurnaghan")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # scipy warns where a fit fails
            volume, energy, modulus = fit.fit(warn=False)
        is_inside = volumes.min() < volume < volumes.max() and modulus > 0
    except (RuntimeError, Warning):
        is_inside = False
    if not is_inside:
        raise SimulationError(
            f"the energy has no minimum between {volumes.min():.4g} and {volumes.max():.4g} Å³, so it has no equation "
            "of state; check the relaxed structure and the model."
        )
    return EquationOfState(
        volumes, energies, float(volume), float(energy), float(in_gpa(modulus)), float(fit.eos_parameters[2])
    )
