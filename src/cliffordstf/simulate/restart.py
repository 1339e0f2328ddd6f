"""The restart file: the exact state of a run as plain numbers, in numpy's npz format without pickle."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from numpy.typing import NDArray

from cliffordstf.data.structure import FloatArray
from cliffordstf.errors import readable
from cliffordstf.host.budget import USUAL_BUDGET
from cliffordstf.host.files import write_atomically
from cliffordstf.simulate.guards import SimulationError

FORMAT_VERSION = 1


@dataclass(frozen=True)
class State:
    """Everything that decides how a run goes on.

    Attributes:
        step: Steps done.
        settings: What must be the same when the run goes on: ensemble, timestep.
        numbers, positions, momenta, cell, pbc: As in ASE (Å, ASE's units of momentum).
        random: State of numpy's bit generator.
        barostat: See `barostat_state`.
    """

    step: int
    settings: dict[str, Any]
    numbers: NDArray[np.int64]
    positions: FloatArray
    momenta: FloatArray
    cell: FloatArray
    pbc: NDArray[np.bool_]
    random: dict[str, Any]
    barostat: dict[str, FloatArray] = field(default_factory=dict)


def save_state(path: Path, state: State) -> None:
    """Write a restart file; the old one stays until the new one is complete."""
    header = {"version": FORMAT_VERSION, "step": state.step, "settings": state.settings, "random": state.random}
    arrays = {name: getattr(state, name) for name in ("numbers", "positions", "momenta", "cell", "pbc")}
    arrays |= {f"barostat_{name}": value for name, value in state.barostat.items()}

    def write(target: Path) -> None:
        with target.open("wb") as stream:
            np.savez(stream, header=np.array(json.dumps(header)), **arrays)

    write_atomically(path, write)


def load_state(path: Path) -> State:
    """Read a restart file.

    Raises:
        SimulationError: It is missing, damaged, or of a newer version.
    """
    if not path.is_file():
        raise SimulationError(f"there is no restart file {path} to go on from; start the run without resume.")
    with readable(path, "restart file; start the run without resume", SimulationError):
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            USUAL_BUDGET.unpacked(sum(member.file_size for member in file.zip.infolist()), str(path))
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop("header")))
        version = header["version"]
        prefix = "barostat_"
        state = State(
            step=int(header["step"]),
            settings=header["settings"],
            random=header["random"],
            barostat={name.removeprefix(prefix): arrays.pop(name) for name in list(arrays) if name.startswith(prefix)},
            **arrays,
        )
        _check(state)
    if version > FORMAT_VERSION:
        raise SimulationError(f"{path} was written by a newer cliffordstf; update the package.")
    return state


def _check(state: State) -> None:
    """Refuse what no run has written.

    Raises:
        ValueError: Shapes, numbers or the state of the generator cannot be.
    """
    atoms = len(state.numbers)
    shapes = (state.positions.shape, state.momenta.shape, state.cell.shape, state.pbc.shape)
    if state.step < 0 or shapes != ((atoms, 3), (atoms, 3), (3, 3), (3,)) or not isinstance(state.settings, dict):
        raise ValueError("its arrays do not fit together")
    for values in (state.positions, state.momenta, state.cell, *state.barostat.values()):
        if not np.isfinite(values).all():
            raise ValueError("it holds numbers that are not finite")
    np.random.default_rng().bit_generator.state = state.random


def apply_state(atoms: Atoms, state: State, settings: dict[str, Any], path: Path) -> None:
    """Put atoms where a restart file says they were.

    Raises:
        SimulationError: The file belongs to other atoms or to a run with other settings.
    """
    if not np.array_equal(atoms.numbers, state.numbers) or not np.array_equal(atoms.pbc, state.pbc):
        raise SimulationError(f"{path} belongs to other atoms; go on with the structure that the run was started with.")
    for name, value in settings.items():
        if state.settings.get(name) != value:
            raise SimulationError(
                f"{path} comes from a run with {name}={state.settings.get(name)}, not {value}; keep it or start anew."
            )
    atoms.set_cell(state.cell)
    # Constraints were already applied when these numbers came about; applying them again may change the last bit.
    atoms.set_positions(state.positions, apply_constraint=False)
    atoms.set_momenta(state.momenta, apply_constraint=False)
