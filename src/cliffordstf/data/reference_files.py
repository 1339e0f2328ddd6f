"""Isolated-atom energies as users give them: by symbol or number, or in a file of their own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from ase.data import atomic_numbers

from cliffordstf.data.linear_references import linear_references
from cliffordstf.data.options import ReadOptions
from cliffordstf.data.readers import read_files
from cliffordstf.data.references import ReferenceMode, isolated_atoms, split_isolated
from cliffordstf.data.structure import symbol
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.options.text import did_you_mean

MODES = ("auto", "isolated", "least-squares", "mean", "none")


def wanted_references(
    asked: str | Mapping[str, float], elements: Sequence[int], options: ReadOptions
) -> ReferenceMode | dict[int, float]:
    """What `find_references` takes, from what the option `data.reference` holds.

    Args:
        asked: A mode; energies, eV, by chemical symbol or atomic number; a .npz file with energies by atomic number; or
            a file with one isolated atom of each element.
        elements: Atomic numbers of the data.
        options: How to read a file of structures: units and keys are those of the data.

    Raises:
        ConfigError: A name is not a chemical symbol, or the text is neither a mode nor a file.
        DataError: The file cannot be read or lacks an element.
    """
    if isinstance(asked, Mapping):
        return {_number(name): float(value) for name, value in asked.items()}
    if asked in MODES:
        return cast("ReferenceMode", asked)
    path = Path(asked).expanduser()
    if not path.exists():
        hint = did_you_mean(asked, MODES)
        raise ConfigError(
            f"data.reference={asked} is neither a file nor one of {', '.join(MODES)}{hint}; give a file with isolated "
            "atoms, energies such as {H: -13.6, O: -2041.8}, or one of these words."
        )
    if path.suffix == ".npz" and _is_linear(path):
        return linear_references(path, elements)
    return _from_structures(path, elements, options)


def _number(name: str | int) -> int:
    text = str(name)
    if text.isdecimal():
        return int(text)
    if text not in atomic_numbers:
        raise ConfigError(
            f"data.reference names '{text}', which is not a chemical symbol{did_you_mean(text, atomic_numbers)}."
        )
    return int(atomic_numbers[text])


def _is_linear(path: Path) -> bool:
    """Whether a .npz file holds energies by atomic number rather than structures."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return not ({"nuclear_charges", "z"} & set(archive.files))
    except (OSError, ValueError):
        return True


def _from_structures(path: Path, elements: Sequence[int], options: ReadOptions) -> dict[int, float]:
    plain = options.model_copy(update={"limit": None, "config_type": "none"})
    frames, _ = read_files(path, plain)
    atoms, others = split_isolated(frames)
    if not atoms:
        raise DataError(
            f"{path} holds {len(others)} structures but no isolated atom, so it gives no reference energies; write one "
            "structure with a single atom for each element."
        )
    energies, _ = isolated_atoms(atoms)
    missing = [symbol(number) for number in elements if number not in energies]
    if missing:
        raise DataError(
            f"{path} has no isolated atom with an energy for {', '.join(missing)}; add "
            f"{'it' if len(missing) == 1 else 'them'}, or leave data.reference out to have energies fitted."
        )
    return energies
