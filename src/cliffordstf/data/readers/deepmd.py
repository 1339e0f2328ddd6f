"""DeePMD systems: a folder with `type.raw`, `type_map.raw` and `set.*` folders of NumPy arrays, in eV and Å."""

from pathlib import Path

import numpy as np
from ase.data import atomic_numbers

from cliffordstf.data.readers.paths import natural_key
from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.data.readers.stacked import split_frames
from cliffordstf.data.structure import IntArray
from cliffordstf.errors import DataError
from cliffordstf.host.budget import USUAL_BUDGET, Budget, size_of

LABELS = ("energy", "force", "virial")


def is_system(path: Path) -> bool:
    """Whether a folder is a DeePMD system."""
    return (path / "type.raw").is_file()


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET) -> Contents:
    """Read all sets, one after the other. A file named `nopbc` makes it a molecule."""
    elements = _elements(path)
    types = _indices_to_numbers(path, np.loadtxt(path / "type.raw", dtype=np.int64, ndmin=1).ravel(), elements)
    sets = sorted(path.glob("set.*"), key=lambda item: natural_key(item.name))
    budget.unpacked(sum(file.stat().st_size for folder in sets for file in folder.glob("*.npy")), str(path))
    if not sets:
        raise DataError(
            f"{path.name} is a DeePMD folder without set.* folders; raw text must be converted to npy first."
        )
    records: list[Record] = []
    for folder in sets:
        left = None if limit is None else limit - len(records)
        records.extend(_read_set(path, folder, types, elements, left))
    return Contents("DeePMD npy", records)


def _elements(path: Path) -> IntArray:
    file = path / "type_map.raw"
    if not file.is_file():
        raise DataError(
            f"{path.name} has no type_map.raw; write one with the chemical symbol of each type, one a line."
        )
    names = file.read_text(encoding="utf-8").split()
    unknown = [name for name in names if name not in atomic_numbers]
    if unknown:
        raise DataError(f"{path.name}/type_map.raw names '{unknown[0]}', which is not a chemical symbol; correct it.")
    return np.array([atomic_numbers[name] for name in names], dtype=np.int64)


def _indices_to_numbers(path: Path, types: IntArray, elements: IntArray) -> IntArray:
    if types.size and (types.max() >= len(elements) or types.min() < -1):
        raise DataError(
            f"{path.name} uses type {int(types.max())} but type_map.raw names only {len(elements)}; add the others."
        )
    return np.where(types < 0, 0, elements[types])


def _read_set(path: Path, folder: Path, types: IntArray, elements: IntArray, limit: int | None) -> list[Record]:
    periodic = not (path / "nopbc").exists()
    needed = ("coord.npy", "box.npy") if periodic else ("coord.npy",)
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{path.name}/{folder.name} has no {missing[0]}; add it (or a file nopbc if there is no box).")
    coordinates = _load(folder / "coord.npy")
    frames = len(coordinates)
    properties = {name: _load(folder / f"{name}.npy") for name in LABELS if (folder / f"{name}.npy").is_file()}
    if "force" in properties:
        properties["force"] = properties["force"].reshape(frames, -1, 3)
    mixed = folder / "real_atom_types.npy"
    numbers = _indices_to_numbers(path, _load(mixed).astype(np.int64), elements) if mixed.is_file() else types
    cell = _load(folder / "box.npy") if periodic else None
    try:
        records = split_frames(numbers, coordinates, properties, limit, cell)
    except DataError as error:
        raise DataError(f"{path.name}/{folder.name}: {error}") from None
    return [_without_padding(record) for record in records] if mixed.is_file() else records


def _load(file: Path) -> np.ndarray:
    with file.open("rb") as stream:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(stream)
        if dtype.hasobject or size_of(shape, dtype.itemsize) > file.stat().st_size:
            raise DataError(f"{file} states {shape} numbers, which it does not hold; copy it again.")
    return np.load(file, allow_pickle=False)


def _without_padding(record: Record) -> Record:
    """Mixed systems fill up with virtual atoms of type -1."""
    real = record.numbers > 0
    properties = dict(record.properties)
    if "force" in properties:
        properties["force"] = properties["force"][real]
    return Record(record.numbers[real], record.positions[real], properties, record.cell, record.pbc, record.label)
