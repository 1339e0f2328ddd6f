"""HDF5 files, in one simple layout.

A group (or the file itself) is one structure or many of one kind when it holds

- `numbers` (also `atomic_numbers`, `elements`, `species`, `z`), (atoms,) or (frames, atoms), and
- `positions` (also `coordinates`, `coords`, `conformations`, `pos`, `r`), (atoms, 3) or (frames, atoms, 3),

and beside them `energy`, `forces`, `stress` or `virial` as data sets or attributes, (frames, …) where there are many,
`cell` (3, 3) or (frames, 3, 3) and `pbc` (3,). A data set with an attribute `units` is taken at its word. Groups are
read in the natural order of their names.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from cliffordstf.data.readers.labels import SEARCH
from cliffordstf.data.readers.paths import MOST_FILES, Stamp, natural_key, stamp
from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.data.readers.stacked import split_frames
from cliffordstf.errors import DataError
from cliffordstf.host.budget import USUAL_BUDGET, Budget, size_of

NUMBERS = ("numbers", "atomic_numbers", "elements", "species", "z")
POSITIONS = ("positions", "coordinates", "coords", "conformations", "pos", "r")
CELL = ("cell", "box", "lattice")
PBC = ("pbc",)
LABELS = {key for keys in SEARCH.values() for key in keys}
_STRUCTURAL = {*NUMBERS, *POSITIONS}


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET, first: int = 0) -> Contents:
    """Read the groups that hold numbers and positions, from one structure on; others with numbers are reported."""
    records: list[Record] = []
    key_units: dict[str, str] = {}
    index = _index(path, stamp(path), budget)
    stop = index.count if limit is None else min(index.count, first + limit)
    with h5py.File(path, "r") as file:
        if not index.names:
            raise DataError(
                f"{path.name} has no group with numbers and positions (it holds {_outline(file)}); "
                "each structure needs 'atomic_numbers' and 'positions' in one group."
            )
        while first + len(records) < stop:
            place = bisect_right(index.ends, first + len(records))
            begin = index.ends[place - 1] if place else 0
            group = file[index.names[place]]
            items = _items(dict(group.items()))  # what links lead to was looked at by the walk
            rows = slice(first + len(records) - begin, min(stop, index.ends[place]) - begin)
            records.extend(_read_group(path, group, items, rows, budget))
            key_units.update(_stated_units(items))
    return Contents("HDF5", records, key_units=key_units, warnings=_warnings(path, index.left_out), first=first)


def count(path: Path, budget: Budget = USUAL_BUDGET) -> int:
    """Number of structures in all groups."""
    return _index(path, stamp(path), budget).count


@dataclass(frozen=True)
class _Index:
    """Where structures are.

    Attributes:
        names: Of the groups that hold structures.
        ends: Number of the first structure behind each group.
        left_out: Groups that have numbers but no structure.
    """

    names: list[str]
    ends: list[int]
    left_out: list[str]

    @property
    def count(self) -> int:
        """Number of structures."""
        return self.ends[-1] if self.ends else 0


@lru_cache(maxsize=MOST_FILES)
def _index(path: Path, _stamp: Stamp, budget: Budget) -> _Index:
    """Walk the groups, once while the file stays as it is."""
    names, sizes, left_out = [], [], []
    check_time = budget.clock(str(path))
    with h5py.File(path, "r") as file:
        for group, items in _groups(path, file, budget):
            check_time()
            if _is_structural(items) and (frames := _frames(items)):
                names.append(group.name)
                sizes.append(frames)
            elif any(key.casefold() in _STRUCTURAL | LABELS for key in items):
                left_out.append(group.name.strip("/") or "/")
    return _Index(names, list(accumulate(sizes)), left_out)


def _warnings(path: Path, left_out: Sequence[str]) -> tuple[str, ...]:
    if not left_out:
        return ()
    names = ", ".join(left_out[:5]) + (", …" if len(left_out) > 5 else "")
    return (f"{len(left_out)} groups of {path.name} lack atomic numbers or positions and were left out: {names}.",)


Items = dict[str, h5py.Dataset]
"""Data sets of a group by name."""


def _find(items: Items, names: tuple[str, ...]) -> str | None:
    present = {key.casefold(): key for key in items}
    return next((present[name] for name in names if name in present), None)


def _groups(path: Path, group: h5py.Group, budget: Budget, depth: int = 0) -> Iterator[tuple[h5py.Group, Items]]:
    """A group and all below those that are no structures themselves, with their data sets."""
    budget.nested(depth, str(path))
    children = {key: _child(path, group, key) for key in sorted(group, key=natural_key)}
    items = _items(children)
    if items:
        yield group, items
    if _is_structural(items):
        return
    for child in children.values():
        if isinstance(child, h5py.Group):
            yield from _groups(path, child, budget, depth + 1)


def _items(children: Mapping[str, Any]) -> Items:
    return {key: child for key, child in children.items() if isinstance(child, h5py.Dataset)}


def _child(path: Path, group: h5py.Group, key: str) -> Any:
    """What is under a name; links to other files are refused, links to nothing are damage."""
    where = f"{group.name.rstrip('/')}/{key}"
    if isinstance(group.get(key, getlink=True), h5py.ExternalLink):
        raise DataError(f"{path.name} refers to another file under '{where}'; copy that into it.")
    try:
        return group[key]
    except (KeyError, OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{path.name} is damaged: '{where}' cannot be opened ({error}); copy it again.") from None


def _is_structural(items: Items) -> bool:
    return bool(_find(items, NUMBERS) and _find(items, POSITIONS))


def _is_single(items: Items) -> bool:
    """Whether a group holds one structure."""
    return bool(items[_find(items, POSITIONS) or ""].ndim == 2)


def _frames(items: Items) -> int:
    """Structures of a group: one, or the length of the first axis of its positions."""
    shape = items[_find(items, POSITIONS) or ""].shape
    return 1 if _is_single(items) else int(shape[0]) if shape else 0


def _read_group(path: Path, group: h5py.Group, items: Items, rows: slice, budget: Budget) -> list[Record]:
    """Some of the structures of a group; of stacked arrays only their rows are read."""
    structural = [_find(items, names) for names in (NUMBERS, POSITIONS, CELL, PBC)]
    label = group.name.strip("/")
    arrays = {key: np.asarray(value) for key, value in group.attrs.items()} | items
    stacked = _stacked(f"{path.name}, group '{label or '/'}'", arrays, structural, _frames(items))
    shapes = {key: (rows.stop - rows.start, *a.shape[1:]) if key in stacked else a.shape for key, a in arrays.items()}
    budget.unpacked(sum(size_of(shapes[key], array.dtype.itemsize) for key, array in arrays.items()), str(path))
    chosen = {key: rows if key in stacked else () for key in arrays}
    numbers, positions, cell, pbc = (_value(path, items, key, chosen) for key in structural)
    properties = {
        key: array[chosen[key]]
        for key, array in arrays.items()
        if key not in structural and array.dtype.kind in "fiu" and (key in stacked or _is_single(items))
    }
    try:
        if positions.ndim == 2:
            numbers, positions = np.atleast_2d(np.squeeze(numbers)), positions[None]
            properties = {key: np.asarray(value)[None] for key, value in properties.items()}
        return split_frames(numbers, positions, properties, None, cell, pbc, label)
    except DataError as error:
        raise DataError(f"{path.name}, group '{label or '/'}': {error}") from None


def _stacked(where: str, arrays: Mapping[str, Any], structural: list[str | None], frames: int) -> set[str]:
    """Names of the arrays with one row a structure; others have one value for all.

    Raises:
        DataError: A label has another number of rows.
    """
    if arrays[structural[1] or ""].ndim == 2:
        return set()
    found = {key for key, array in arrays.items() if _is_stacked(key, array, structural, frames)}
    for key, array in arrays.items():  # some of the rows could happen to be as many as a label has in all
        if key.casefold() in LABELS and array.dtype.kind in "fiu" and key not in found:
            raise DataError(
                f"{where}: there are {frames} sets of positions but {array.shape[0] if array.shape else 1} of '{key}'; "
                "every frame needs one."
            )
    return found


def _is_stacked(key: str, item: Any, structural: list[str | None], frames: int) -> bool:
    """Whether a data set has one row a structure rather than one value for all."""
    numbers, _, cell, pbc = structural
    if key == cell:
        return item.shape in ((frames, 3, 3), (frames, 9))
    return item.ndim > (1 if key in (numbers, pbc) else 0) and item.shape[0] == frames


def _value(path: Path, items: Items, key: str | None, chosen: Mapping[str, Any]) -> Any:
    if key is None:
        return None
    if items[key].dtype.kind not in "fiub":
        raise DataError(f"{path.name} holds text in '{items[key].name}', where numbers are needed; store numbers.")
    return items[key][chosen[key]]


def _stated_units(items: Items) -> dict[str, str]:
    positions = _find(items, POSITIONS)
    units = {}
    for key, item in items.items():
        unit = item.attrs.get("units")
        if unit is not None:
            text = unit.decode() if isinstance(unit, bytes) else str(unit)
            units["positions" if key == positions else key] = text
    return units


def _outline(file: h5py.File) -> str:
    names: list[str] = []
    file.visit(names.append)
    return (", ".join(names[:12]) + (", …" if len(names) > 12 else "")) or "nothing"
