"""JSON of pymatgen structures with `outputs`, the layout of the mlearn data sets.

A list of {"structure": {"lattice", "sites"}, "outputs": {"energy", "forces", "virial_stress"}, "group"}. The virial
stress is in kbar and positive under pressure, as VASP has it, so that its unit is `-kbar`. The order of its shear
components differs between the published files, even between groups of one file, so the format does not fix it.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from ase.data import atomic_numbers

from cliffordstf.data.readers.compression import open_text
from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.errors import DataError
from cliffordstf.host.budget import USUAL_BUDGET, Budget

GROUP = "group"


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET) -> Contents:
    """Read every entry; disordered sites are refused."""
    with open_text(path, budget) as file:
        try:
            entries = json.load(file)
        except RecursionError:
            budget.nested(sys.getrecursionlimit(), str(path))
            raise
    if not isinstance(entries, list) or not all(isinstance(entry, dict) and "structure" in entry for entry in entries):
        raise DataError(
            f"{path.name} is JSON, but not a list of entries with 'structure' and 'outputs' as mlearn has them; "
            "convert it to extended XYZ."
        )
    records = [_record(path, index, entry) for index, entry in enumerate(entries[:limit])]
    return Contents("mlearn JSON", records, stress_unit="-kbar", stress_order=None, config_key=GROUP)


def _record(path: Path, index: int, entry: dict[str, Any]) -> Record:
    try:
        structure = entry["structure"]
        species = [site["species"] for site in structure["sites"]]
        positions = np.array([site["xyz"] for site in structure["sites"]], dtype=np.float64)
        cell = np.array(structure["lattice"]["matrix"], dtype=np.float64)
        numbers = np.array([atomic_numbers[kinds[0]["element"]] for kinds in species], dtype=np.int64)
    except (KeyError, IndexError, TypeError) as error:
        raise DataError(f"{path.name}, frame {index}, lacks {error} in its structure; check the entry.") from error
    if any(len(kinds) != 1 or kinds[0].get("occu", 1) != 1 for kinds in species):
        raise DataError(
            f"{path.name}, frame {index}, has sites that several elements share; order the structure first."
        )
    properties = dict(entry.get("outputs", {}))
    if GROUP in entry:
        properties[GROUP] = entry[GROUP]
    if "virial_stress" in properties:
        properties["virial_stress"] = np.asarray(properties["virial_stress"], dtype=np.float64)
    if "forces" in properties:
        properties["forces"] = np.asarray(properties["forces"], dtype=np.float64)
    return Record(numbers, positions, properties, cell, np.ones(3, dtype=bool))
