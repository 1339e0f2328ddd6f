"""Structures that a file keeps as stacked arrays, one row a frame."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cliffordstf.data.readers.record import Record
from cliffordstf.errors import DataError


def split_frames(
    numbers: Any,
    positions: Any,
    properties: Mapping[str, Any],
    limit: int | None = None,
    cell: Any = None,
    pbc: Any = None,
    label: str = "",
) -> list[Record]:
    """Records from arrays whose first axis is the frame.

    Args:
        numbers: (atoms,) for all frames, or (frames, atoms).
        positions: (frames, atoms, 3), or flattened (frames, 3 atoms).
        properties: Arrays with one row a frame, by key.
        limit: At most this many frames.
        cell: (3, 3) for all frames, or (frames, 3, 3), or (frames, 9); None for molecules.
        pbc: (3,) or (frames, 3); None makes everything with a cell periodic.
        label: The file's own name for these structures.

    Raises:
        DataError: The arrays do not have the same number of frames or atoms.
    """
    positions = np.asarray(positions)
    frames = len(positions)
    for key, values in {**properties, "positions": positions}.items():
        if np.ndim(values) == 0 or len(values) != frames:
            found = 1 if np.ndim(values) == 0 else len(values)
            raise DataError(f"there are {frames} sets of positions but {found} of '{key}'; every frame needs one.")
    numbers = np.asarray(numbers).astype(np.int64)
    if positions[:1].size not in (0, 3 * numbers.shape[-1]):
        raise DataError(
            f"positions of shape {positions.shape} do not belong to {numbers.shape[-1]} atoms; check the arrays."
        )
    cells = None if cell is None else np.asarray(cell, dtype=np.float64).reshape(-1, 3, 3)
    records = []
    for index in range(frames if limit is None else min(limit, frames)):
        this_cell = np.zeros((3, 3)) if cells is None else cells[index if len(cells) > 1 else 0]
        periodic = np.full(3, cells is not None and bool(this_cell.any()))
        if pbc is not None:
            periodic = np.asarray(pbc, dtype=bool).reshape(-1, 3)[index if np.ndim(pbc) > 1 else 0]
        records.append(
            Record(
                numbers=numbers if numbers.ndim == 1 else numbers[index],
                positions=positions[index].reshape(-1, 3).astype(np.float64),
                properties={key: values[index] for key, values in properties.items()},
                cell=this_cell,
                pbc=periodic,
                label=label,
            )
        )
    return records
