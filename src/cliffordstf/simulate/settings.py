"""What a molecular-dynamics run needs to know and what it reports."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from cliffordstf.errors import ConfigError
from cliffordstf.options.text import did_you_mean
from cliffordstf.simulate.guards import Guards

Ensemble = Literal["nve", "nvt", "npt"]
TRAJECTORY_SUFFIXES = (".traj", ".extxyz", ".xyz")


@dataclass(frozen=True)
class MDSettings:
    """Settings of a molecular-dynamics run, checked when made.

    Attributes:
        ensemble: `nve` (velocity Verlet), `nvt` (Langevin) or `npt` (Langevin with a Langevin-Hoover barostat).
        temperature: K; of the thermostat, and of the velocities drawn for a structure without any.
        pressure: GPa, for `npt`.
        timestep: fs.
        steps: Number of the last step; a resumed run goes on from the step in the restart file up to this one.
        friction: 1/fs, coupling to the thermostat.
        barostat_time: fs, time scale of the cell.
        hydrostatic: The barostat keeps the shape of the cell.
        seed: Of the velocities and the thermostat.
        interval: Steps between rows of the log and frames of the trajectory.
        trajectory: `.traj` or `.extxyz` file, or None.
        log: CSV file, or None.
        restart: File with the state to go on from, or None.
        restart_interval: Steps between writes of the restart file; it is also written at the end.
        resume: Go on from `restart` instead of starting anew.
        guards: Limits that stop the run.
    """

    ensemble: Ensemble = "nve"
    temperature: float = 300.0
    pressure: float = 0.0
    timestep: float = 0.5
    steps: int = 1000
    friction: float = 0.01
    barostat_time: float = 1000.0
    hydrostatic: bool = True
    seed: int = 0
    interval: int = 10
    trajectory: Path | None = None
    log: Path | None = None
    restart: Path | None = None
    restart_interval: int = 1000
    resume: bool = False
    guards: Guards = field(default_factory=Guards)

    def __post_init__(self) -> None:
        for name in ("trajectory", "log", "restart"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else Path(value))
        if self.ensemble not in get_args(Ensemble):
            raise ConfigError(
                f"there is no ensemble '{self.ensemble}'{did_you_mean(self.ensemble, get_args(Ensemble))}; choose nve, "
                "nvt or npt."
            )
        self._check_numbers()
        check_trajectory(self.trajectory)
        if self.resume and self.restart is None:
            raise ConfigError("resume needs the restart file to go on from; give one.")

    def _check_numbers(self) -> None:
        for name in ("timestep", "friction", "barostat_time", "interval", "restart_interval"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}={getattr(self, name)} must be above zero.")
        for name in ("temperature", "steps", "seed"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name}={getattr(self, name)} must not be negative.")


def check_trajectory(path: Path | None) -> None:
    """Refuse a trajectory file whose suffix says nothing about its format."""
    if path is not None and path.suffix not in TRAJECTORY_SUFFIXES:
        raise ConfigError(f"the trajectory {path} must end in one of {', '.join(TRAJECTORY_SUFFIXES)}.")


@dataclass(frozen=True)
class MDResult:
    """What a run did.

    Attributes:
        first_step, last_step: Step it started from and step it reached.
        steps: How many steps were made.
        drift: meV/atom/ps, slope of a least-squares line through the total energy of every step; it measures the
            integrator and the potential in `nve` only, since thermostats exchange energy.
        mean_temperature: K, over every step; kinetic energy per degree of freedom, constraints taken off.
        seconds: Wall-clock time, s.
        neighbour_share: Share of that time spent in the neighbour list; None for calculators that do not say.
        memory_growth: MB by which the process grew between step 1,000 and the end; None for shorter runs and where the
            system does not tell.
        mean_volume: Å³, over every step of an `npt` run, the state that it started from included; None otherwise.
        mean_density: g/cm³, likewise.
        mean_pressure: GPa, likewise; positive under compression, kinetic part included.
    """

    first_step: int
    last_step: int
    drift: float
    mean_temperature: float
    seconds: float
    neighbour_share: float | None
    memory_growth: float | None = None
    mean_volume: float | None = None
    mean_density: float | None = None
    mean_pressure: float | None = None

    @property
    def steps(self) -> int:
        """How many steps were made."""
        return self.last_step - self.first_step
