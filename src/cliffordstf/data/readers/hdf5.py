"""HDF5 files, in one simple layout.

A group (or the file itself) is one structure or many of one kind when it holds

- `numbers` (also `atomic_numbers`, `elements`, `species`, `z`), (atoms,) or (frames, atoms), and
- `positions` (also `coordinates`, `coords`, `conformations`, `pos`, `r`), (atoms, 3) or (frames, atoms, 3),

and beside them `energy`, `forces`, `stress` or `virial` as data sets or attributes, (frames, …) where there are many,
`cell` (3, 3) or (frames, 3, 3) and `pbc` (3,). A data set with an attribute `units` is taken at its word. Groups are
read in the natural order of their names.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from cliffordstf.data.readers.labels import SEARCH
from cliffordstf.data.readers.paths import natural_key
from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.data.readers.stacked import split_frames
from cliffordstf.errors import DataError

NUMBERS = ("numbers", "atomic_numbers", "elements", "species", "z")
POSITIONS = ("positions", "coordinates", "coords", "conformations", "pos", "r")
CELL = ("cell", "box", "lattice")
PBC = ("pbc",)
LABELS = {key for keys in SEARCH.values() for key in keys}


def read(path: Path, limit: int | None, first: int = 0) -> Contents:
    """Walk the groups and read those that hold numbers and positions, from one structure on."""
    records: list[Record] = []
    key_units: dict[str, str] = {}
    before = 0
    with h5py.File(path, "r") as file:
        for group in _structure_groups(file):
            left = None if limit is None else limit - len(records)
            if left == 0:
                break
            frames, skipped = _frames(group), max(0, first - before)
            before += frames
            if skipped < frames:
                end = frames if left is None else min(frames, skipped + left)
                records.extend(_read_group(path, group, slice(skipped, end)))
                key_units.update(_stated_units(group))
        if not records:
            raise DataError(
                f"{path.name} has no group with numbers and positions (it holds {_outline(file)}); "
                "each structure needs 'atomic_numbers' and 'positions' in one group."
            )
    return Contents("HDF5", records, key_units=key_units, first=first)


def count(path: Path) -> int:
    """Number of structures in all groups."""
    with h5py.File(path, "r") as file:
        return sum(_frames(group) for group in _structure_groups(file))


def _frames(group: h5py.Group) -> int:
    """Structures of a group: one, or the length of the first axis of its positions."""
    shape = group[_find(group, POSITIONS)].shape
    return 1 if len(shape) == 2 else int(shape[0])


def _find(group: h5py.Group, names: tuple[str, ...]) -> str | None:
    present = {key.casefold(): key for key in group if isinstance(group.get(key), h5py.Dataset)}
    return next((present[name] for name in names if name in present), None)


def _structure_groups(group: h5py.Group) -> Iterator[h5py.Group]:
    if _find(group, NUMBERS) and _find(group, POSITIONS):
        yield group
        return
    for key in sorted(group, key=natural_key):
        child = group.get(key)
        if isinstance(child, h5py.Group):
            yield from _structure_groups(child)


def _read_group(path: Path, group: h5py.Group, rows: slice) -> list[Record]:
    """Some of the structures of a group; of stacked arrays only their rows are read."""
    structural = [_find(group, names) for names in (NUMBERS, POSITIONS, CELL, PBC)]
    frames = _frames(group)
    rows_of = {
        key: rows if group[structural[1]].ndim != 2 and _is_stacked(key, item, structural, frames) else ()
        for key, item in group.items()
        if isinstance(item, h5py.Dataset)
    }
    numbers, positions, cell, pbc = (_value(path, group, key, rows_of) for key in structural)
    properties = {
        key: group[key][rows_of[key]] for key in rows_of if key not in structural and group[key].dtype.kind in "fiu"
    }
    properties |= {key: value for key, value in group.attrs.items() if np.asarray(value).dtype.kind in "fiu"}
    label = group.name.strip("/")
    try:
        if positions.ndim == 2:
            numbers, positions = np.atleast_2d(np.squeeze(numbers)), positions[None]
            single = {key: np.asarray(value)[None] for key, value in properties.items()}
            return split_frames(numbers, positions, single, None, cell, pbc, label)
        per_frame = {
            key: value
            for key, value in properties.items()
            if key.casefold() in LABELS or (np.ndim(value) > 0 and len(value) == len(positions))
        }
        return split_frames(numbers, positions, per_frame, None, cell, pbc, label)
    except DataError as error:
        raise DataError(f"{path.name}, group '{label or '/'}': {error}") from None


def _is_stacked(key: str, item: h5py.Dataset, structural: list[str | None], frames: int) -> bool:
    """Whether a data set has one row a structure rather than one value for all."""
    numbers, _, cell, pbc = structural
    if key == cell:
        return item.shape in ((frames, 3, 3), (frames, 9))
    return item.ndim > (1 if key in (numbers, pbc) else 0) and item.shape[0] == frames


def _value(path: Path, group: h5py.Group, key: str | None, rows: Mapping[str, Any]) -> Any:
    if key is None:
        return None
    if group[key].dtype.kind not in "fiub":
        raise DataError(f"{path.name} holds text in '{group[key].name}', where numbers are needed; store numbers.")
    return group[key][rows[key]]


def _stated_units(group: h5py.Group) -> dict[str, str]:
    positions = _find(group, POSITIONS)
    units = {}
    for key, item in group.items():
        unit = item.attrs.get("units")
        if unit is not None:
            text = unit.decode() if isinstance(unit, bytes) else str(unit)
            units["positions" if key == positions else key] = text
    return units


def _outline(file: h5py.File) -> str:
    names: list[str] = []
    file.visit(names.append)
    return (", ".join(names[:12]) + (", …" if len(names) > 12 else "")) or "nothing"
