"""HDF5 files, in one simple layout.

A group (or the file itself) is one structure or many of one kind when it holds

- `numbers` (also `atomic_numbers`, `elements`, `species`, `z`), (atoms,) or (frames, atoms), and
- `positions` (also `coordinates`, `coords`, `conformations`, `pos`, `r`), (atoms, 3) or (frames, atoms, 3),

and beside them `energy`, `forces`, `stress` or `virial` as data sets or attributes, (frames, …) where there are many,
`cell` (3, 3) or (frames, 3, 3) and `pbc` (3,). A data set with an attribute `units` is taken at its word. Groups are
read in the natural order of their names.
"""

from collections.abc import Iterator
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


def read(path: Path, limit: int | None) -> Contents:
    """Walk the groups and read every one that holds numbers and positions."""
    records: list[Record] = []
    key_units: dict[str, str] = {}
    with h5py.File(path, "r") as file:
        for group in _structure_groups(file):
            left = None if limit is None else limit - len(records)
            if left == 0:
                break
            records.extend(_read_group(path, group, left))
            key_units.update(_stated_units(group))
        if not records:
            raise DataError(
                f"{path.name} has no group with numbers and positions (it holds {_outline(file)}); "
                "each structure needs 'atomic_numbers' and 'positions' in one group."
            )
    return Contents("HDF5", records, key_units=key_units)


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


def _read_group(path: Path, group: h5py.Group, limit: int | None) -> list[Record]:
    structural = [_find(group, names) for names in (NUMBERS, POSITIONS, CELL, PBC)]
    numbers, positions, cell, pbc = (_value(path, group, key) for key in structural)
    properties = {
        key: item[()]
        for key, item in group.items()
        if isinstance(item, h5py.Dataset) and key not in structural and item.dtype.kind in "fiu"
    }
    properties |= {key: value for key, value in group.attrs.items() if np.asarray(value).dtype.kind in "fiu"}
    label = group.name.strip("/")
    try:
        if positions.ndim == 2:
            numbers, positions = np.atleast_2d(np.squeeze(numbers)), positions[None]
            single = {key: np.asarray(value)[None] for key, value in properties.items()}
            return split_frames(numbers, positions, single, limit, cell, pbc, label)
        per_frame = {
            key: value
            for key, value in properties.items()
            if key.casefold() in LABELS or (np.ndim(value) > 0 and len(value) == len(positions))
        }
        return split_frames(numbers, positions, per_frame, limit, cell, pbc, label)
    except DataError as error:
        raise DataError(f"{path.name}, group '{label or '/'}': {error}") from None


def _value(path: Path, group: h5py.Group, key: str | None) -> Any:
    if key is None:
        return None
    if group[key].dtype.kind not in "fiub":
        raise DataError(f"{path.name} holds text in '{group[key].name}', where numbers are needed; store numbers.")
    return group[key][()]


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
