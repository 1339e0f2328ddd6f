"""Watch over a simulation: stop it when its numbers cannot be trusted any more."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from ase import Atoms
from ase.calculators.calculator import CalculatorError, PropertyNotImplementedError
from ase.data import covalent_radii

from cliffordstf.data.neighbours import NeighbourList, edge_lengths, neighbour_list
from cliffordstf.data.skin_list import SkinList
from cliffordstf.data.structure import FloatArray, Structure, symbol
from cliffordstf.errors import CliffordSTFError, ConfigError, StructureError


class SimulationError(CliffordSTFError, RuntimeError):
    """A simulation was stopped because it left the region where its numbers mean anything."""


BROKEN = (SimulationError, StructureError, CalculatorError, FloatingPointError, np.linalg.LinAlgError)
"""What is raised when a structure has come to a place where it cannot be evaluated."""


@dataclass(frozen=True)
class Guards:
    """Limits that stop a simulation.

    Attributes:
        max_force: eV/Å, largest force on an atom.
        max_temperature: K; by default ten times the target temperature plus 1000 K.
        min_distance: Å, shortest distance between two atoms.
        min_covalent: Shortest distance as a share of the sum of covalent radii; the larger of the two limits holds.
        max_force_std: eV/Å, limit on `Calculator.uncertainty["max_force_std"]` of an ensemble of potentials; None for
            no limit.
        max_extrapolation: Limit on `Calculator.get_extrapolation()`; 1 is the edge of the training set. None for no
            limit, which saves an evaluation without a gradient every step.
    """

    max_force: float = 100.0
    max_temperature: float | None = None
    min_distance: float = 0.3
    min_covalent: float = 0.4
    max_force_std: float | None = None
    max_extrapolation: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_force", "max_temperature", "max_force_std", "max_extrapolation"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"the limit {name}={value} must be above zero.")

    def check(self, atoms: Atoms, target_temperature: float) -> None:
        """Look at atoms with fresh forces.

        Args:
            atoms: With a calculator; asking it for forces here is free because they were just computed.
            target_temperature: K.

        Raises:
            SimulationError: Something passed its limit; the message says what and where.
        """
        self._check_finite(atoms)
        self._check_forces(atoms)
        self._check_temperature(atoms, target_temperature)
        self._check_distances(atoms)
        self._check_ensemble(atoms.calc)
        if self.max_extrapolation is not None:
            check_extrapolation(atoms, self.max_extrapolation)

    @staticmethod
    def _check_finite(atoms: Atoms) -> None:
        values = {
            "positions": atoms.positions,
            "velocities": atoms.get_velocities(),
            "forces": atoms.get_forces(apply_constraint=False),
            "energy": np.array(atoms.get_potential_energy()),
        }
        for name, value in values.items():
            if not np.isfinite(value).all():
                raise SimulationError(f"the {name} are not finite numbers any more; try a shorter timestep.")

    def _check_forces(self, atoms: Atoms) -> None:
        sizes = np.linalg.norm(atoms.get_forces(apply_constraint=False), axis=1)
        atom = int(sizes.argmax())
        if sizes[atom] > self.max_force:
            raise SimulationError(
                f"the force on atom {atom} ({symbol(int(atoms.numbers[atom]))}) is {sizes[atom]:.3g} eV/Å, above the "
                f"limit of {self.max_force:g} eV/Å; check the start structure, the timestep and the potential."
            )

    def _check_temperature(self, atoms: Atoms, target: float) -> None:
        limit = self.max_temperature if self.max_temperature is not None else 10 * target + 1000
        temperature = float(atoms.get_temperature())
        if temperature > limit:
            raise SimulationError(
                f"the temperature is {temperature:.4g} K, above the limit of {limit:.4g} K; relax the start structure, "
                "shorten the timestep or use a potential trained on such structures."
            )

    def _check_distances(self, atoms: Atoms) -> None:
        radii = covalent_radii[atoms.numbers]
        reach = max(self.min_distance, 2 * self.min_covalent * float(radii.max()))
        edges, distances = _pairs(atoms, reach)
        if len(distances) == 0:
            return
        limits = np.maximum(self.min_distance, self.min_covalent * (radii[edges.senders] + radii[edges.receivers]))
        worst = int((distances - limits).argmin())
        if distances[worst] < limits[worst]:
            pair = [int(edges.receivers[worst]), int(edges.senders[worst])]
            names = [f"{atom} ({symbol(int(atoms.numbers[atom]))})" for atom in pair]
            raise SimulationError(
                f"atoms {names[0]} and {names[1]} are {distances[worst]:.3f} Å apart, closer than the limit of "
                f"{limits[worst]:.3f} Å; check the start structure, the timestep and the potential."
            )

    def _check_ensemble(self, calculator: Any) -> None:
        if self.max_force_std is None:
            return
        spread = ensemble_spread(calculator)
        if not spread:
            raise ConfigError("a limit on the spread of an ensemble needs a calculator with two or more models.")
        if spread["max_force_std"] > self.max_force_std:
            raise SimulationError(
                f"the standard deviation of the ensemble on a force is {spread['max_force_std']:.3g} eV/Å, above the "
                f"limit of {self.max_force_std:g} eV/Å; label this structure and train on it."
            )


def check_extrapolation(atoms: Atoms, limit: float) -> None:
    """Stop where an atom is farther from the training set than a limit.

    Raises:
        SimulationError: One is.
        ConfigError: The calculator does not know.
    """
    measure = getattr(atoms.calc, "get_extrapolation", None)
    if measure is None:
        raise ConfigError("a limit on extrapolation needs a calculator of cliffordstf.")
    try:
        found = measure(atoms)
    except PropertyNotImplementedError as error:
        raise ConfigError(str(error)) from None
    atom = int(found.argmax())
    if found[atom] > limit:
        raise SimulationError(
            f"atom {atom} ({symbol(int(atoms.numbers[atom]))}) is outside of the training data, {found[atom]:.3g} "
            f"times as far as their edge, above the limit of {limit:g}; label this structure and train on it."
        )


def _pairs(atoms: Atoms, reach: float) -> tuple[NeighbourList, FloatArray]:
    """Neighbours up to at least `reach`, Å, and their distances: those of our calculator, or a list of their own."""
    known = getattr(atoms.calc, "neighbours", None)
    if isinstance(known, SkinList) and known.cutoff >= reach:
        return known.pairs()
    structure = Structure.from_ase(atoms)
    edges = neighbour_list(structure, reach)
    return edges, edge_lengths(structure.positions, structure.cell, edges)


def ensemble_spread(calculator: Any) -> dict[str, float]:
    """`uncertainty` of a calculator with several potentials; empty for every other calculator."""
    return dict(getattr(calculator, "uncertainty", {}) or {})
