"""Which keys of a file are its labels."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cliffordstf.data.readers.record import Contents, Record, Source
from cliffordstf.data.units import LabelKeys
from cliffordstf.errors import DataError
from cliffordstf.options.text import did_you_mean

SEARCH: dict[str, tuple[str, ...]] = {
    "energy": (
        "energy",
        "energies",
        "e",
        "dft_energy",
        "ref_energy",
        "total_energy",
        "dft_total_energy",
        "potential_energy",
        "free_energy",
    ),
    "forces": ("forces", "force", "f", "dft_forces", "dft_force", "ref_forces", "ref_force"),
    "stress": ("stress", "dft_stress", "ref_stress", "virial_stress"),
    "virial": ("virial", "virials", "dft_virial", "dft_virials", "ref_virial", "ref_virials"),
}
"""Label -> keys it is looked for under, best first; upper and lower case are the same."""

EXPECTED = {"energy": "one number", "forces": "three numbers per atom", "stress": "6 or 9 numbers"}
EXPECTED["virial"] = EXPECTED["stress"]

_HARMLESS = "free_energy"  # Stands beside the energy in every VASP result and always differs a little.


@dataclass(frozen=True)
class Chosen:
    """Keys of the labels; at most one of stress and virial."""

    energy: str | None
    forces: str | None
    stress: str | None
    virial: str | None
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, str | None]:
        """Keys for energy, forces and stress, where a virial counts as stress."""
        return {"energy": self.energy, "forces": self.forces, "stress": self.stress or self.virial}


def choose_labels(contents: Contents, keys: LabelKeys, file: str) -> Chosen:
    """Find the label keys of a file, or check the ones that are given.

    Raises:
        DataError: A key that is given is not in the file, or holds something else.
    """
    warnings: list[str] = []

    def find(label: str, given: str | None) -> str | None:
        if given is not None:
            _check_given(contents.records, label, given, file)
            return given
        return _search(contents, label, warnings)

    energy = find("energy", keys.energy or contents.energy_key)
    forces = find("forces", keys.forces)
    virial = find("virial", keys.virial) if keys.virial is not None else None
    stress = find("stress", keys.stress) if virial is None else None
    if stress is None and virial is None:
        virial = find("virial", None)
    return Chosen(energy, forces, stress, virial, tuple(warnings))


NO_FORCES = "no forces label was found among the keys"
"""How the warning about missing forces begins."""


def missing_labels(sources: Sequence[Source], keys: Sequence[str]) -> list[str]:
    """Warnings about labels that none of several files has.

    Args:
        sources: What the files turned out to be.
        keys: Everything that they hold beside atoms and cells.
    """
    warnings = []
    names = ", ".join(list(dict.fromkeys(keys))[:30]) or "there are none"
    for label in ("energy", "forces"):
        expected = label != "forces" or any(source.has_forces for source in sources)
        if expected and all(source.keys[label] is None for source in sources):
            warnings.append(f"no {label} label was found among the keys ({names}); if there is one, name its key.")
    return warnings


def _fits(label: str, value: Any, n_atoms: int) -> bool:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        return False
    checks: dict[str, Callable[[], bool]] = {
        "energy": lambda: array.size == 1,
        "forces": lambda: array.shape == (n_atoms, 3),
    }
    return checks.get(label, lambda: array.shape in {(6,), (9,), (3, 3)})()


def _has(record: Record, label: str, key: str) -> bool:
    return key in record.properties and _fits(label, record.properties[key], len(record.numbers))


def _all_keys(records: Iterable[Record]) -> list[str]:
    return list(dict.fromkeys(key for record in records for key in record.properties))


def _listed(records: list[Record]) -> str:
    names = _all_keys(records[:100])
    shown = ", ".join(names[:30]) + (", …" if len(names) > 30 else "")
    return shown or "there are none"


def _check_given(records: list[Record], label: str, key: str, file: str) -> None:
    holders = [record for record in records if key in record.properties]
    if not holders:
        raise DataError(
            f"{file} has no key '{key}' for the {label}{did_you_mean(key, _all_keys(records))}; "
            f"its keys are: {_listed(records)}."
        )
    bad = next((record for record in holders if not _has(record, label, key)), None)
    if bad is not None:
        shape = np.asarray(bad.properties[key]).shape
        raise DataError(
            f"{file} holds something of shape {shape} under '{key}', but a label for the {label} is "
            f"{EXPECTED[label]}; name another key, there are: {_listed(records)}."
        )


def _search(contents: Contents, label: str, warnings: list[str]) -> str | None:
    names = [key for key in _all_keys(contents.records) if key not in contents.only_if_named]
    found = [
        key
        for candidate in SEARCH[label]
        for key in names
        if key.casefold() == candidate and any(_has(record, label, key) for record in contents.records)
    ]
    if not found:
        return None
    for other in found[1:]:
        warnings.extend(_conflict(contents.records, label, found[0], other))
    return found[0]


def _conflict(records: list[Record], label: str, used: str, other: str) -> list[str]:
    """Say so where another key could be meant: it has other values, or more of them."""
    if other.casefold() == _HARMLESS:
        return []
    n_used = sum(_has(record, label, used) for record in records)
    n_other = sum(_has(record, label, other) for record in records)
    differ = any(
        _has(record, label, used)
        and _has(record, label, other)
        and not np.allclose(np.ravel(record.properties[used]), np.ravel(record.properties[other]), equal_nan=True)
        for record in records[:100]
    )
    if not differ and n_other <= n_used:
        return []
    return [
        f"the {label} was read from '{used}' ({n_used} structures), but there is also '{other}' ({n_other} "
        "structures) with other values; name the key that you mean."
    ]
