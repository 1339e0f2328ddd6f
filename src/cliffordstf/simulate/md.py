"""Molecular dynamics: one loop around ASE's integrators, with guards, logs and exact restarts."""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator as AseCalculator

from cliffordstf.simulate.drift import Box, BoxMeans, EnergyLine
from cliffordstf.simulate.guards import BROKEN, SimulationError, ensemble_spread
from cliffordstf.simulate.integrators import barostat_state, draw_velocities, make_integrator, set_barostat_state
from cliffordstf.simulate.output import CsvLog, TrajectoryFile
from cliffordstf.simulate.restart import State, apply_state, load_state, save_state
from cliffordstf.simulate.settings import MDResult, MDSettings

MEV_PER_EV = 1000.0
FS_PER_PS = 1000.0
SETTLED_AFTER = 1000
"""Steps after which every buffer has been allocated once."""


def resident_memory() -> float:
    """Memory of this process, MB; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def run_md(
    atoms: Atoms,
    calculator: AseCalculator,
    settings: MDSettings,
    on_step: Callable[[int], None] | None = None,
) -> MDResult:
    """Run molecular dynamics; `atoms` is moved in place.

    Velocities that the atoms bring along are kept; atoms without any get Maxwell-Boltzmann velocities.

    Args:
        atoms: Where to start.
        calculator: Any ASE calculator, for example `cliffordstf.integrations.ase.Calculator`.
        settings: What to do.
        on_step: Called with the number of every step done.

    Raises:
        SimulationError: A guard stopped the run; log, trajectory and the last restart file are complete on disk.
    """
    atoms.calc = calculator
    return _Run(atoms, settings, on_step).run()


class _Run:
    """A run in progress."""

    def __init__(self, atoms: Atoms, settings: MDSettings, on_step: Callable[[int], None] | None) -> None:
        self.atoms = atoms
        self.settings = settings
        self.on_step = on_step
        self.random = np.random.default_rng(settings.seed)
        self.line = EnergyLine()
        self.box_means = BoxMeans()
        self.target_temperature = settings.temperature
        self.first_step = 0
        self.step = 0
        self.log: CsvLog | None = None
        self.trajectory: TrajectoryFile | None = None
        self.settled_memory: float | None = None
        self.integrator: Any  # ASE's integrators share no typed interface

    def run(self) -> MDResult:
        start = time.perf_counter()
        neighbour_start = self._neighbour_seconds()
        self._prepare()
        with ExitStack() as stack:
            self._open_outputs(stack)
            self._guarded(self._observe)
            while self.step < self.settings.steps:
                self._guarded(self._advance)
                if self.on_step is not None:
                    self.on_step(self.step)
            self._save()
        seconds = time.perf_counter() - start
        neighbour_end = self._neighbour_seconds()
        share = (
            None if neighbour_start is None or neighbour_end is None else (neighbour_end - neighbour_start) / seconds
        )
        drift = self.line.slope() * MEV_PER_EV / len(self.atoms)
        growth = None if self.settled_memory is None else resident_memory() - self.settled_memory
        box = self.box_means.means()
        return MDResult(
            first_step=self.first_step,
            last_step=self.step,
            drift=drift,
            mean_temperature=self.line.mean_temperature(),
            seconds=seconds,
            neighbour_share=share,
            memory_growth=growth,
            mean_volume=None if box is None else box.volume,
            mean_density=None if box is None else box.density,
            mean_pressure=None if box is None else box.pressure,
        )

    def _prepare(self) -> None:
        state: State | None = None
        if self.settings.resume and self.settings.restart is not None:
            state = load_state(self.settings.restart)
            apply_state(self.atoms, state, self._fixed_settings(), self.settings.restart)
            self.random.bit_generator.state = state.random
            self.first_step = self.step = state.step
        elif not self.atoms.get_momenta().any():
            draw_velocities(self.atoms, self.settings.temperature, self.random)
        # Velocities that came with the atoms may be hotter than what the settings ask for.
        self.target_temperature = max(self.settings.temperature, float(self.atoms.get_temperature()))
        self.integrator = make_integrator(self.atoms, self.settings, self.random)
        if state is not None:
            set_barostat_state(self.integrator, state.barostat)

    def _open_outputs(self, stack: ExitStack) -> None:
        resume_from = self.first_step if self.settings.resume else None
        if self.settings.log is not None:
            ensemble = bool(len(getattr(self.atoms.calc, "potentials", ())) > 1)
            log = CsvLog(self.settings.log, ensemble, resume_from, box=self.settings.ensemble == "npt")
            self.log = stack.enter_context(log)
        if self.settings.trajectory is not None:
            self.trajectory = TrajectoryFile(self.settings.trajectory, resume_from)

    def _advance(self) -> None:
        self.integrator.step()
        self.step += 1
        self._observe()
        if self.step - self.first_step == SETTLED_AFTER and resident_memory() > 0:
            self.settled_memory = resident_memory()

    def _observe(self) -> None:
        """Check, log and save the state after a step."""
        atoms, settings = self.atoms, self.settings
        settings.guards.check(atoms, self.target_temperature)
        potential, kinetic = float(atoms.get_potential_energy()), float(atoms.get_kinetic_energy())
        picoseconds = self.step * settings.timestep / FS_PER_PS
        temperature = float(atoms.get_temperature())
        self.line.add(picoseconds, potential + kinetic, temperature)
        # The barostat has just asked for the stress; in the other ensembles it would cost time.
        box = Box.of(atoms) if settings.ensemble == "npt" else None
        if box is not None:
            self.box_means.add(box)
        if self.step % settings.interval == 0 or self.step == settings.steps:
            if self.log is not None:
                energies = (potential, kinetic, potential + kinetic)
                spread = ensemble_spread(atoms.calc).values()
                self.log.add(self.step, picoseconds, *energies, temperature, *(box or ()), *spread)
            if self.trajectory is not None:
                self.trajectory.add(atoms, self.step)
        if self.step % settings.restart_interval == 0 and self.step > self.first_step:
            self._save()

    def _save(self) -> None:
        if self.settings.restart is None:
            return
        atoms = self.atoms
        state = State(
            step=self.step,
            settings=self._fixed_settings(),
            numbers=atoms.numbers,
            positions=atoms.get_positions(),
            momenta=atoms.get_momenta(),
            cell=atoms.cell.array,
            pbc=atoms.pbc,
            random=dict(self.random.bit_generator.state),
            barostat=barostat_state(self.integrator),
        )
        save_state(self.settings.restart, state)

    def _fixed_settings(self) -> dict[str, Any]:
        return {"ensemble": self.settings.ensemble, "timestep": self.settings.timestep}

    def _guarded(self, action: Callable[[], None]) -> None:
        """Say at which step the physics went wrong; mistakes in settings and files are passed on as they are."""
        try:
            action()
        except BROKEN as error:
            picoseconds = self.step * self.settings.timestep / FS_PER_PS
            raise SimulationError(f"stopped at step {self.step} ({picoseconds:g} ps): {error}") from error

    def _neighbour_seconds(self) -> float | None:
        neighbours = getattr(self.atoms.calc, "neighbours", None)
        return None if neighbours is None else float(neighbours.seconds)
