"""Relaxation of positions and, if wanted, of the cell."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from ase import Atoms, units
from ase.calculators.calculator import Calculator as AseCalculator
from ase.filters import FrechetCellFilter
from ase.optimize import BFGS, FIRE, LBFGS

from cliffordstf.errors import ConfigError
from cliffordstf.simulate.guards import BROKEN, SimulationError
from cliffordstf.simulate.output import TrajectoryFile
from cliffordstf.simulate.settings import check_trajectory
from cliffordstf.text import did_you_mean

OptimizerName = Literal["fire", "lbfgs", "bfgs"]
OPTIMIZERS: dict[str, Any] = {"fire": FIRE, "lbfgs": LBFGS, "bfgs": BFGS}


@dataclass(frozen=True)
class RelaxSettings:
    """Settings of a relaxation, checked when made.

    Attributes:
        optimizer: `fire` (robust far from a minimum), `lbfgs` or `bfgs` (faster near one).
        fmax: eV/Å, largest force on an atom at the end; with `cell` also largest gradient of the cell.
        steps: Most steps to take.
        cell: Relax the cell as well; needs periodicity in three directions.
        pressure: GPa, on the cell.
        trajectory: `.traj` or `.extxyz` file for every step, or None.
    """

    optimizer: OptimizerName = "lbfgs"
    fmax: float = 0.01
    steps: int = 500
    cell: bool = False
    pressure: float = 0.0
    trajectory: Path | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "trajectory", None if self.trajectory is None else Path(self.trajectory))
        if self.optimizer not in get_args(OptimizerName):
            raise ConfigError(
                f"there is no optimizer '{self.optimizer}'{did_you_mean(self.optimizer, OPTIMIZERS)}; choose fire, "
                "lbfgs or bfgs."
            )
        if not self.fmax > 0 or not self.steps >= 0:
            raise ConfigError(f"fmax={self.fmax} must be above zero and steps={self.steps} must not be negative.")
        if self.pressure != 0 and not self.cell:
            raise ConfigError(f"a pressure of {self.pressure} GPa acts on the cell; relax the cell as well.")
        check_trajectory(self.trajectory)


@dataclass(frozen=True)
class RelaxResult:
    """What a relaxation reached.

    Attributes:
        converged: Whether `fmax` was reached.
        steps: Steps taken.
        energy: eV.
        max_force: eV/Å, largest force on an atom that is free to move.
        max_displacement: Å, farthest that an atom moved.
        seconds: Wall-clock time, s.
    """

    converged: bool
    steps: int
    energy: float
    max_force: float
    max_displacement: float
    seconds: float


def relax(
    atoms: Atoms,
    calculator: AseCalculator,
    settings: RelaxSettings,
    on_step: Callable[[int, float], None] | None = None,
) -> RelaxResult:
    """Relax a structure; `atoms` is moved in place.

    Args:
        atoms: Where to start.
        calculator: Any ASE calculator.
        settings: What to do.
        on_step: Called with the number of every step and the largest force then, eV/Å.

    Raises:
        SimulationError: The structure left the region where the calculator gives finite numbers.
    """
    if settings.cell and not atoms.pbc.all():
        raise ConfigError(
            f"{atoms.get_chemical_formula()} is not periodic in three directions, so its cell cannot be relaxed; relax "
            "the positions only."
        )
    start = time.perf_counter()
    atoms.calc = calculator
    before = atoms.get_positions()
    trajectory = TrajectoryFile(settings.trajectory) if settings.trajectory is not None else None
    target = FrechetCellFilter(atoms, scalar_pressure=settings.pressure * units.GPa) if settings.cell else atoms
    optimizer = OPTIMIZERS[settings.optimizer](target, logfile=None)

    def observe() -> None:
        if trajectory is not None:
            trajectory.add(atoms, optimizer.nsteps)
        if on_step is not None:
            on_step(optimizer.nsteps, _largest(atoms.get_forces()))

    optimizer.attach(observe)
    converged = _run(optimizer, settings)
    return RelaxResult(
        converged=converged,
        steps=int(optimizer.nsteps),
        energy=float(atoms.get_potential_energy()),
        max_force=_largest(atoms.get_forces()),
        max_displacement=_largest(atoms.get_positions() - before),
        seconds=time.perf_counter() - start,
    )


def _run(optimizer: Any, settings: RelaxSettings) -> bool:
    try:
        return bool(optimizer.run(fmax=settings.fmax, steps=settings.steps))
    except BROKEN as error:
        raise SimulationError(f"the relaxation stopped at step {optimizer.nsteps}: {error}") from error


def _largest(vectors: Any) -> float:
    return float(np.linalg.norm(vectors, axis=1).max())
