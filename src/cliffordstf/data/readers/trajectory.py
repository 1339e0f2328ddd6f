"""ASE trajectories (.traj)."""

from pathlib import Path

from ase.io.trajectory import Trajectory

from cliffordstf.data.readers.extxyz import record_from_atoms
from cliffordstf.data.readers.record import Contents


def read(path: Path, limit: int | None) -> Contents:
    """Read the frames with their stored results; constraints are not applied to the forces."""
    with Trajectory(str(path)) as trajectory:
        count = len(trajectory) if limit is None else min(limit, len(trajectory))
        return Contents("ASE trajectory", [record_from_atoms(trajectory[index]) for index in range(count)])
