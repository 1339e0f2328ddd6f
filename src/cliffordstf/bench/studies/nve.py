"""Long dynamics without a thermostat: whether a potential holds a molecule together, and its energy."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from ase import Atoms
from ase.io import read

from cliffordstf.bench.jobs.sweep import file_name
from cliffordstf.bench.tables.formatting import titled
from cliffordstf.bench.tables.table import Table
from cliffordstf.data.bonds import bonded_pairs
from cliffordstf.data.readers import read_frames
from cliffordstf.data.structure import FloatArray, symbol
from cliffordstf.errors import DataError
from cliffordstf.integrations.ase import Calculator
from cliffordstf.simulate.guards import SimulationError
from cliffordstf.simulate.md import run_md
from cliffordstf.simulate.settings import MDSettings
from cliffordstf.train.provenance import describe_run
from cliffordstf.train.run import Watcher

INTERVAL = 100
"""Steps between the frames that bond lengths are taken from."""


@dataclass(frozen=True)
class NveJob:
    """One trajectory.

    Attributes:
        model: Model file or name of a shipped model.
        data: Labelled frames of one molecule; the run starts from one of them, and its bond lengths are compared
            with theirs.
        seed: Which frame, and which velocities.
        temperature: K, of the velocities at the start.
        timestep: fs.
        picoseconds: Length of the run.
        dtype: Precision of the model.
    """

    model: str
    data: Path
    seed: int = 0
    temperature: float = 500.0
    timestep: float = 0.5
    picoseconds: float = 100.0
    dtype: Literal["float64", "float32"] = "float32"

    @property
    def name(self) -> str:
        """Safe for a file name."""
        return f"nve-{file_name(Path(self.model).stem)}-{self.temperature:g}K-{self.picoseconds:g}ps-seed{self.seed}"

    @property
    def labels(self) -> dict[str, Any]:
        """What the trajectory is of."""
        return {
            "benchmark": "nve",
            "model": Path(self.model).stem,
            "frames": self.data.name,
            "seed": self.seed,
            "temperature_k": self.temperature,
            "timestep_fs": self.timestep,
            "picoseconds": self.picoseconds,
            "dtype": self.dtype,
        }

    def settings(self) -> dict[str, Any]:
        """Its labels say everything."""
        return {}

    def run(self, directory: Path, watcher: Watcher | None) -> dict[str, Any]:  # noqa: ARG002 - nothing to watch
        """Run, or go on from the folder's restart file. A signal ends the process; the restart file stays."""
        frames, _ = read_frames(str(self.data))
        structure = frames[self.seed % len(frames)].structure
        atoms = Atoms(structure.numbers, structure.positions)
        bonds = bonded_pairs(frames[0].structure.numbers, frames[0].structure.positions)
        if any(len(f.structure) != len(atoms) or (f.structure.numbers != atoms.numbers).any() for f in frames):
            raise DataError(f"{self.data} holds different molecules; bond lengths can be compared for one only.")
        known = _lengths(np.stack([frame.structure.positions for frame in frames]), bonds)
        directory.mkdir(parents=True, exist_ok=True)
        restart, trajectory = directory / "md.restart.npz", directory / "md.traj"
        settings = MDSettings(
            ensemble="nve",
            temperature=self.temperature,
            timestep=self.timestep,
            steps=round(1000 * self.picoseconds / self.timestep),
            seed=self.seed,
            interval=INTERVAL,
            trajectory=trajectory,
            log=directory / "md.csv",
            restart=restart,
            resume=restart.is_file(),
        )
        broken = None
        try:
            run_md(atoms, Calculator(self.model, dtype=self.dtype), settings)
        except SimulationError as error:
            broken = str(error)
        found = _lengths(np.stack([a.positions for a in read(trajectory, ":")]), bonds)
        return {
            **_energies(directory / "md.csv", len(atoms)),
            "broken": broken,
            "bonds": _ranges(atoms, bonds, found, known),
            **_origin(),
        }


def _origin() -> dict[str, Any]:
    run = describe_run()
    return {name: run[name] for name in ("command", "commit", "date", "machine")}


def _lengths(positions: FloatArray, bonds: list[tuple[int, int]]) -> FloatArray:
    """Bond lengths, Å, (frames, bonds)."""
    first, second = np.array(bonds).T
    return np.asarray(np.linalg.norm(positions[:, first] - positions[:, second], axis=2))


def _ranges(
    atoms: Atoms, bonds: list[tuple[int, int]], found: FloatArray, known: FloatArray
) -> dict[str, dict[str, float]]:
    """Shortest, mean and longest bond of each kind, Å, in the run and in the data."""
    kinds = np.array(["-".join(sorted(symbol(int(atoms.numbers[i])) for i in bond)) for bond in bonds])
    return {
        kind: {
            f"{what}_{where}": round(float(getattr(values[:, kinds == kind], what)()), 4)
            for where, values in (("run", found), ("data", known))
            for what in ("min", "mean", "max")
        }
        for kind in sorted(set(kinds.tolist()))
    }


def _energies(log: Path, atoms: int) -> dict[str, Any]:
    """Drift of the total energy over the whole run, whatever number of sittings it took, and mean temperature."""
    rows = np.atleast_1d(np.genfromtxt(log, delimiter=",", names=True))
    time, energy, temperature = (rows[name] for name in ("time_ps", "total_ev", "temperature_k"))
    slope = float(np.polyfit(time, energy - energy[0], 1)[0]) if len(time) > 1 else 0.0
    return {
        "reached_ps": float(time[-1]),
        "drift_mev_per_atom_per_ps": 1000 * slope / atoms,
        "energy_std_mev_per_atom": float(1000 * np.std(energy) / atoms),
        "mean_temperature_k": float(temperature.mean()),
        "max_temperature_k": float(temperature.max()),
    }


def nve_table(results: Sequence[dict[str, Any]]) -> Table:
    """One line a trajectory."""
    title = "Dynamics without a thermostat; bonds: shortest and longest of the run over those of the data"
    table = Table(
        titled(title, results),
        ["model", "start, K", "seed", "ps", "drift, meV/atom/ps", "mean T, K", "shortest", "longest", "broken"],
    )
    for result in sorted(results, key=lambda item: (item["model"], item["temperature_k"], item["seed"])):
        bonds = result["bonds"].values()
        table.add(
            result["model"],
            f"{result['temperature_k']:g}",
            str(result["seed"]),
            f"{result['reached_ps']:g} of {result['picoseconds']:g}",
            f"{result['drift_mev_per_atom_per_ps']:+.4f}",
            f"{result['mean_temperature_k']:.0f}",
            f"{min(bond['min_run'] / bond['min_data'] for bond in bonds):.3f}",
            f"{max(bond['max_run'] / bond['max_data'] for bond in bonds):.3f}",
            result["broken"] or "no",
        )
    return table
