"""NumPy archives of molecular dynamics of one molecule: the keys of revised MD17 and those of sGDML.

revised MD17: `nuclear_charges` (atoms,), `coords` (frames, atoms, 3), `energies` (frames,), `forces`; kcal/mol and Å.
sGDML: `z` (atoms,), `R` (frames, atoms, 3), `E` (frames,), `F`, units in `e_unit` and `r_unit`, `lattice` as columns.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cliffordstf.data.readers.record import Contents
from cliffordstf.data.readers.stacked import split_frames
from cliffordstf.errors import DataError
from cliffordstf.host.budget import USUAL_BUDGET, Budget


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET) -> Contents:
    """Read either kind; an array of Python objects is refused, since opening it could run code."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        keys = list(archive.files)
        budget.unpacked(sum(member.file_size for member in archive.zip.infolist()), str(path))
        if {"nuclear_charges", "coords"} <= set(keys):
            return _revised_md17(_load(path, archive, ("nuclear_charges", "coords", "energies", "forces")), limit)
        if {"z", "R"} <= set(keys):
            wanted = ("z", "R", "E", "F", "e_unit", "r_unit", "lattice")
            return _sgdml(_load(path, archive, wanted), limit)
    raise DataError(
        f"{path.name} has the keys {', '.join(keys) or '(none)'}, which are neither those of revised MD17 "
        "(nuclear_charges, coords, energies, forces) nor those of sGDML (z, R, E, F); "
        "rename them or write extended XYZ."
    )


def _load(path: Path, archive: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    loaded = {}
    for name in names:
        if name in archive:
            try:
                loaded[name] = archive[name]
            except ValueError as error:
                raise DataError(
                    f"{path.name} holds Python objects under '{name}', which could run code when opened; save that "
                    "array with a plain number or text type."
                ) from error
    return loaded


def _revised_md17(arrays: dict[str, Any], limit: int | None) -> Contents:
    records = split_frames(arrays["nuclear_charges"], arrays["coords"], _labels(arrays, "energies", "forces"), limit)
    return Contents("revised MD17 npz", records, energy_unit="kcal/mol")


def _sgdml(arrays: dict[str, Any], limit: int | None) -> Contents:
    warnings = []
    units = {"e_unit": "kcal/mol", "r_unit": "Å"}
    for key, usual in tuple(units.items()):
        units[key] = _text(arrays.get(key)) or usual
        if not _text(arrays.get(key)):
            warnings.append(f"the file states no {key}; {usual} was assumed, as in the public sGDML and MD17 files.")
    lattice = arrays.get("lattice")
    records = split_frames(
        arrays["z"],
        arrays["R"],
        _labels(arrays, "E", "F"),
        limit,
        cell=None if lattice is None else np.asarray(lattice).T,
    )
    return Contents("sGDML npz", records, units["e_unit"], units["r_unit"], warnings=tuple(warnings))


def _labels(arrays: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: arrays[key] for key in keys if key in arrays}


def _text(value: Any) -> str:
    if value is None:
        return ""
    item = np.asarray(value).item()
    text = item.decode() if isinstance(item, bytes) else str(item)
    return "" if text.startswith("[n.a") else text
