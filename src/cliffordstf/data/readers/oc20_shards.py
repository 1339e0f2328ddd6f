"""Raw S2EF shards of OC20: `N.extxyz.xz`, with system, frame and reference energy of each structure in `N.txt.xz`."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from cliffordstf.data.readers import extxyz
from cliffordstf.data.readers.compression import first_bytes, open_text
from cliffordstf.data.readers.record import Contents, Record, system_id
from cliffordstf.errors import DataError
from cliffordstf.host.budget import USUAL_BUDGET, Budget

ADSORPTION = "adsorption_energy"
SUBSURFACE = 0
"""Tag of the atoms that were held in place; 1 is the surface, 2 the adsorbate."""


def side_file(path: Path) -> Path | None:
    """The text file of a shard, or None if this is no shard."""
    number, dot, rest = path.name.partition(".")
    if not number.isdigit() or not (dot + rest).startswith(".extxyz"):
        return None
    for name in (f"{number}.txt.xz", f"{number}.txt"):
        beside = path.with_name(name)
        if beside.is_file() and _is_entry(first_bytes(beside, 200).decode("utf-8", "replace").partition("\n")[0]):
            return beside
    return None


def _is_entry(line: str) -> bool:
    parts = line.split(",")
    try:
        return len(parts) == 3 and np.isfinite(float(parts[2]))
    except ValueError:
        return False


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET) -> Contents:
    """Read the structures; the adsorption energy (total minus reference, eV) is one more property."""
    beside = side_file(path)
    assert beside is not None
    with open_text(beside, budget) as file:
        entries = [line.strip() for line in file if line.strip()]
    contents = extxyz.read(path, limit, budget)
    found = len(contents.records)
    if found > len(entries) or (limit is None and found < len(entries)):
        raise DataError(
            f"{path.name} holds {found} structures but {beside.name} has {len(entries)} lines; they do not belong "
            "together, copy both again."
        )
    records = []
    for number, (record, entry) in enumerate(zip(contents.records, entries, strict=False), start=1):
        if not _is_entry(entry):
            raise DataError(f"{beside.name}, line {number} is not 'system,frame,energy'; copy the file again.")
        records.append(_completed(record, *entry.split(",")))
    return replace(contents, format="OC20 S2EF shard", records=records, only_if_named=frozenset({ADSORPTION}))


def _completed(record: Record, system: str, frame: str, reference: str) -> Record:
    total = record.properties.get("energy")
    adsorption = {} if total is None else {ADSORPTION: float(np.ravel(total)[0]) - float(reference)}
    return replace(
        record,
        properties={**record.properties, **adsorption},
        label=f"{system}, {frame}",
        id=system_id(system),
        fixed=_from_tags(record) if record.fixed is None else record.fixed,
    )


def _from_tags(record: Record) -> "np.ndarray[tuple[int], np.dtype[np.bool_]] | None":
    return None if record.tags is None else record.tags == SUBSURFACE
