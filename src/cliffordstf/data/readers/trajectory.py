"""ASE trajectories (.traj)."""

import mmap
from dataclasses import replace
from pathlib import Path

from ase.io.trajectory import TrajectoryReader

from cliffordstf.data.readers.compression import check_arrays, once
from cliffordstf.data.readers.extxyz import record_from_atoms
from cliffordstf.data.readers.record import Contents, system_id
from cliffordstf.host.budget import USUAL_BUDGET, Budget


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET, first: int = 0) -> Contents:
    """Read frames, from one of them on, with their stored results; constraints are not applied to the forces.

    Relaxations of Open Catalyst are named after their system, which becomes the id of their frames.
    """
    once(path, _check)
    # Opened here: ASE leaves a file open that it cannot read.
    with path.open("rb") as stream:
        trajectory = TrajectoryReader(stream)
        budget.announced(len(trajectory), path.stat().st_size, f"{path} has a number of frames that")
        end = len(trajectory) if limit is None else min(first + limit, len(trajectory))
        records = [
            replace(record_from_atoms(trajectory[index]), id=system_id(path.stem)) for index in range(first, end)
        ]
    return Contents("ASE trajectory", records, first=first)


def count(path: Path) -> int:
    """Number of frames."""
    once(path, _check)
    with path.open("rb") as stream:
        return len(TrajectoryReader(stream))


def _check(path: Path) -> None:
    """Look at the whole file through a map, which takes no memory of its own."""
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        check_arrays(content, str(path))
