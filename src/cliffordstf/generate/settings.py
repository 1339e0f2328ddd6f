"""What to sample."""

from dataclasses import dataclass

from cliffordstf.errors import ConfigError


@dataclass(frozen=True)
class GenerateSettings:
    """Settings of a sampling run, checked when made.

    Attributes:
        temperatures: K; the frames are shared out evenly between them.
        frames: How many frames to make in all, isolated atoms not counted.
        rattle: Å, standard deviation of random displacements; given, it replaces molecular dynamics.
        timestep: fs.
        interval: fs between frames.
        equilibration: fs before the first frame.
        friction: 1/fs, of the Langevin thermostat.
        tolerance: Å; a frame whose sorted distances differ by less than this (root mean square) from those of an
            earlier frame is a duplicate and is left out.
        isolated_atoms: Add one frame per element with the energy of its free atom.
        seed: Decides every random number.
    """

    temperatures: tuple[float, ...] = (300.0,)
    frames: int = 200
    rattle: float | None = None
    timestep: float = 0.5
    interval: float = 10.0
    equilibration: float = 500.0
    friction: float = 0.01
    tolerance: float = 0.01
    isolated_atoms: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.temperatures or not all(temperature > 0 for temperature in self.temperatures):
            raise ConfigError(f"temperatures={self.temperatures} must be one or more numbers above zero, in K.")
        for name in ("frames", "timestep", "interval", "friction"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}={getattr(self, name)} must be above zero.")
        for name in ("equilibration", "tolerance", "seed"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name}={getattr(self, name)} must not be negative.")
        if self.rattle is not None and not self.rattle > 0:
            raise ConfigError(f"rattle={self.rattle} must be a length above zero, in Å.")
        if self.interval < self.timestep:
            raise ConfigError(f"interval={self.interval} fs is shorter than the timestep of {self.timestep} fs.")
