"""ASE trajectories (.traj)."""

from dataclasses import replace
from pathlib import Path

from ase.io.trajectory import Trajectory

from cliffordstf.data.readers.compression import check_arrays
from cliffordstf.data.readers.extxyz import record_from_atoms
from cliffordstf.data.readers.record import Contents, system_id
from cliffordstf.host.budget import USUAL_BUDGET, Budget


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET) -> Contents:
    """Read the frames with their stored results; constraints are not applied to the forces.

    Relaxations of Open Catalyst are named after their system, which becomes the id of their frames.
    """
    check_arrays(path.read_bytes(), str(path))
    with Trajectory(str(path)) as trajectory:
        count = len(trajectory) if limit is None else min(limit, len(trajectory))
        budget.announced(count, path.stat().st_size, f"{path} has a number of frames that")
        records = [replace(record_from_atoms(trajectory[index]), id=system_id(path.stem)) for index in range(count)]
    return Contents("ASE trajectory", records)
