"""ASE trajectories (.traj)."""

from dataclasses import replace
from pathlib import Path

from ase.io.trajectory import Trajectory

from cliffordstf.data.readers.extxyz import record_from_atoms
from cliffordstf.data.readers.record import Contents, system_id


def read(path: Path, limit: int | None, first: int = 0) -> Contents:
    """Read frames, from one of them on, with their stored results; constraints are not applied to the forces.

    Relaxations of Open Catalyst are named after their system, which becomes the id of their frames.
    """
    with Trajectory(str(path)) as trajectory:
        end = len(trajectory) if limit is None else min(first + limit, len(trajectory))
        records = [
            replace(record_from_atoms(trajectory[index]), id=system_id(path.stem)) for index in range(first, end)
        ]
    return Contents("ASE trajectory", records, first=first)


def count(path: Path) -> int:
    """Number of frames."""
    with Trajectory(str(path)) as trajectory:
        return len(trajectory)
