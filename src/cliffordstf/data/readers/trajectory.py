"""ASE trajectories (.traj)."""

import mmap
from dataclasses import replace
from pathlib import Path

from ase.io.trajectory import TrajectoryReader

from cliffordstf.data.readers.compression import check_arrays
from cliffordstf.data.readers.extxyz import record_from_atoms
from cliffordstf.data.readers.record import Contents, system_id
from cliffordstf.host.budget import USUAL_BUDGET, Budget


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET) -> Contents:
    """Read the frames with their stored results; constraints are not applied to the forces.

    Relaxations of Open Catalyst are named after their system, which becomes the id of their frames.
    """
    # Opened here: ASE leaves a file open that it cannot read.
    with path.open("rb") as stream:
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            check_arrays(content, str(path))
        trajectory = TrajectoryReader(stream)
        count = len(trajectory) if limit is None else min(limit, len(trajectory))
        budget.announced(count, path.stat().st_size, f"{path} has a number of frames that")
        records = [replace(record_from_atoms(trajectory[index]), id=system_id(path.stem)) for index in range(count)]
    return Contents("ASE trajectory", records)
