"""Write a shard of structures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cliffordstf.data.frame import Frame
from cliffordstf.data.shards.layout import ATOM_COLUMNS, STRUCTURE_COLUMNS, Column, ShardSummary, file_of
from cliffordstf.host.files import write_folder


def write_shard(folder: Path, frames: Sequence[Frame]) -> ShardSummary:
    """Write frames as one shard; the folder appears when all of it is there.

    Args:
        folder: To be made; one that is there is replaced.
        frames: In memory all at once.

    Raises:
        FileWriteError: The disk is full or the folder cannot be written to.
    """
    config_types = tuple(dict.fromkeys(frame.config_type for frame in frames if frame.config_type is not None))
    columns = _structure_columns(frames, config_types) | _atom_columns(frames)

    def write(target: Path) -> None:
        for name, values in columns.items():
            np.save(file_of(target, name), np.ascontiguousarray(values), allow_pickle=False)

    write_folder(folder, write)
    return ShardSummary(
        folder.name,
        len(frames),
        int(columns["atoms"].sum()),
        tuple(np.unique(columns["numbers"]).tolist()),
        {
            "energy": sum(frame.has_energy for frame in frames),
            "forces": sum(frame.has_forces for frame in frames),
            "stress": sum(frame.has_stress for frame in frames),
        },
        config_types,
    )


def _structure_columns(frames: Sequence[Frame], config_types: Sequence[str]) -> dict[str, NDArray[Any]]:
    places = {name: place for place, name in enumerate(config_types)}
    values: dict[str, list[Any]] = {
        "atoms": [len(frame.structure) for frame in frames],
        "cell": [frame.structure.cell for frame in frames],
        "pbc": [frame.structure.pbc for frame in frames],
        "energy": [frame.energy for frame in frames],
        "stress": [frame.stress for frame in frames],
        "id": [frame.id for frame in frames],
        "weights": [None if frame.weights == (1.0, 1.0, 1.0) else frame.weights for frame in frames],
        "config_type": [None if frame.config_type is None else places[frame.config_type] for frame in frames],
    }
    found: dict[str, NDArray[Any]] = {}
    for name, column in STRUCTURE_COLUMNS.items():
        if any(value is not None for value in values[name]):
            rows = [_row(column, value, ()) for value in values[name]]
            found[name] = np.array(rows, dtype=column.kind)
    return found


def _atom_columns(frames: Sequence[Frame]) -> dict[str, NDArray[Any]]:
    values: dict[str, list[Any]] = {
        "numbers": [frame.structure.numbers for frame in frames],
        "positions": [frame.structure.positions for frame in frames],
        "forces": [frame.forces for frame in frames],
        "fixed": [frame.fixed for frame in frames],
        "tags": [frame.tags for frame in frames],
    }
    found: dict[str, NDArray[Any]] = {}
    for name, column in ATOM_COLUMNS.items():
        if any(value is not None for value in values[name]):
            rows = [_row(column, v, (len(f.structure),)) for v, f in zip(values[name], frames, strict=True)]
            found[name] = np.concatenate(rows).astype(column.kind)
    return found


def _row(column: Column, value: Any, atoms: tuple[int, ...]) -> NDArray[Any]:
    """A value, or what stands for one that is missing."""
    return np.full((*atoms, *column.shape), column.missing) if value is None else np.asarray(value)
