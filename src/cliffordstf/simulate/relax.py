"""Relaxation of positions and, if wanted, of the cell."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator as AseCalculator
from ase.optimize import BFGS, FIRE, LBFGS

from cliffordstf.data.structure import FloatArray
from cliffordstf.errors import ConfigError
from cliffordstf.options.text import did_you_mean
from cliffordstf.simulate.cell import cell_filter, cell_gradient
from cliffordstf.simulate.guards import BROKEN, SimulationError
from cliffordstf.simulate.output import TrajectoryFile
from cliffordstf.simulate.settings import check_trajectory
from cliffordstf.simulate.stress import in_gpa, potential_stress

OptimizerName = Literal["auto", "fire", "lbfgs", "bfgs"]
OPTIMIZERS: dict[str, Any] = {"fire": FIRE, "lbfgs": LBFGS, "bfgs": BFGS}
MOST_FOR_BFGS = 200
"""Atoms; beyond these BFGS, which diagonalises a matrix of all coordinates, takes longer than the forces."""


@dataclass(frozen=True)
class RelaxSettings:
    """Settings of a relaxation, checked when made.

    Attributes:
        optimizer: `bfgs` (few steps, robust), `lbfgs` (the same for many atoms, but it may stall where the energy
            curves downwards along the volume), `fire` (many steps, robust far from a minimum), or `auto`: bfgs up to
            200 atoms; beyond, fire with the cell and lbfgs without.
        fmax: eV/Å, largest force on an atom at the end; with `cell` also the largest gradient of the cell, eV per atom,
            see `cliffordstf.simulate.cell.cell_gradient`.
        steps: Most steps to take.
        cell: Relax the cell as well; needs periodicity in three directions.
        pressure: GPa, on the cell.
        constant_volume: With `cell`, relax the shape of the cell only.
        trajectory: `.traj` or `.extxyz` file for every step, or None.
    """

    optimizer: OptimizerName = "auto"
    fmax: float = 0.01
    steps: int = 500
    cell: bool = False
    pressure: float = 0.0
    trajectory: Path | None = None
    constant_volume: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "trajectory", None if self.trajectory is None else Path(self.trajectory))
        if self.optimizer not in get_args(OptimizerName):
            raise ConfigError(
                f"there is no optimizer '{self.optimizer}'{did_you_mean(self.optimizer, OPTIMIZERS)}; choose auto, "
                "fire, lbfgs or bfgs."
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
        converged: Whether the largest force and, with the cell, the gradient of the cell are below `fmax`.
        steps: Steps taken.
        energy: eV.
        max_force: eV/Å, largest force on an atom, constraints applied.
        max_displacement: Å, farthest that an atom moved.
        seconds: Wall-clock time, s.
        cell_gradient: eV per atom, see `cliffordstf.simulate.cell.cell_gradient`; None if the cell was held.
        stress: eV/Å³ in Voigt order, positive under tension, (6,); None without a volume or where the calculator gives
            no stress.
        target_pressure: GPa, that the cell was relaxed to; 0 if the cell was held.
    """

    converged: bool
    steps: int
    energy: float
    max_force: float
    max_displacement: float
    seconds: float
    cell_gradient: float | None = None
    stress: FloatArray | None = field(default=None, compare=False)
    target_pressure: float = 0.0

    @property
    def stress_gpa(self) -> FloatArray | None:
        """Stress in GPa, Voigt order, (6,)."""
        return None if self.stress is None else np.asarray(in_gpa(self.stress))

    @property
    def residual_stress_gpa(self) -> FloatArray | None:
        """Deviation of the stress from the target pressure, GPa, Voigt order, (6,); zero at a perfect minimum."""
        if self.stress_gpa is None:
            return None
        return self.stress_gpa + self.target_pressure * np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])

    @property
    def pressure(self) -> float | None:
        """GPa, positive under compression."""
        return None if self.stress_gpa is None else -float(self.stress_gpa[:3].mean())


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
    target = cell_filter(atoms, settings.pressure, settings.constant_volume) if settings.cell else atoms
    optimizer = OPTIMIZERS[_optimizer(settings, len(atoms))](target, logfile=None)

    def observe() -> None:
        if trajectory is not None:
            trajectory.add(atoms, optimizer.nsteps)
        if on_step is not None:
            on_step(optimizer.nsteps, _largest(atoms.get_forces()))

    optimizer.attach(observe)
    _run(optimizer, atoms, settings)
    # First: some calculators evaluate everything again for the stress, and the verdict is on what is reported.
    stress = potential_stress(atoms)
    return RelaxResult(
        converged=_is_converged(atoms, settings),
        steps=int(optimizer.nsteps),
        energy=float(atoms.get_potential_energy()),
        max_force=_largest(atoms.get_forces()),
        max_displacement=_largest(atoms.get_positions() - before),
        seconds=time.perf_counter() - start,
        cell_gradient=cell_gradient(atoms, settings.pressure, settings.constant_volume) if settings.cell else None,
        stress=stress,
        target_pressure=settings.pressure,
    )


def _optimizer(settings: RelaxSettings, atoms: int) -> str:
    if settings.optimizer != "auto":
        return settings.optimizer
    if atoms <= MOST_FOR_BFGS:
        return "bfgs"
    return "fire" if settings.cell else "lbfgs"


def _run(optimizer: Any, atoms: Atoms, settings: RelaxSettings) -> None:
    """Move until the structure is converged.

    ASE judges the gradient with respect to the optimizer's coordinates. With the cell, these are positions in the cell
    that the relaxation began with, where forces may be smaller than they are; its own limit is out of reach, therefore.
    """
    try:
        for _ in optimizer.irun(fmax=0.0, steps=settings.steps):
            if _is_converged(atoms, settings):
                return
    except BROKEN as error:
        raise SimulationError(f"the relaxation stopped at step {optimizer.nsteps}: {error}") from error


def _is_converged(atoms: Atoms, settings: RelaxSettings) -> bool:
    """Whether forces on atoms, constraints applied, and the gradient of a free cell are below the limit."""
    if not _largest(atoms.get_forces()) < settings.fmax:
        return False
    return not settings.cell or cell_gradient(atoms, settings.pressure, settings.constant_volume) < settings.fmax


def _largest(vectors: Any) -> float:
    return float(np.linalg.norm(vectors, axis=1).max())
