"""ASE trajectories (.traj)."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from ase.io.trajectory import TrajectoryReader

from cliffordstf.data.readers.compression import check_arrays
from cliffordstf.data.readers.extxyz import record_from_atoms
from cliffordstf.data.readers.paths import MOST_FILES, Stamp, stamp
from cliffordstf.data.readers.record import Contents, system_id
from cliffordstf.host.budget import USUAL_BUDGET, Budget


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET, first: int = 0) -> Contents:
    """Read frames, from one of them on, with their stored results; constraints are not applied to the forces.

    Relaxations of Open Catalyst are named after their system, which becomes the id of their frames.
    """
    with _opened(path, budget) as trajectory:
        end = len(trajectory) if limit is None else min(first + limit, len(trajectory))
        records = [
            replace(record_from_atoms(trajectory[index]), id=system_id(path.stem)) for index in range(first, end)
        ]
    return Contents("ASE trajectory", records, first=first)


def count(path: Path, budget: Budget = USUAL_BUDGET) -> int:
    """Number of frames."""
    with _opened(path, budget) as trajectory:
        return len(trajectory)


@contextmanager
def _opened(path: Path, budget: Budget) -> Iterator[TrajectoryReader]:
    _check(path, stamp(path))
    with path.open("rb") as stream:  # opened here: ASE leaves a file open that it cannot read
        trajectory = TrajectoryReader(stream)
        budget.announced(len(trajectory), path.stat().st_size, f"{path} has a number of frames that")
        yield trajectory


@lru_cache(maxsize=MOST_FILES)
def _check(path: Path, _stamp: Stamp) -> None:
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        check_arrays(content, str(path))
