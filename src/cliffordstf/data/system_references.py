"""Energies by system, of clean slab and gas-phase adsorbate, as Open Catalyst publishes them in `oc20_ref.pkl`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cliffordstf.data.frame import Frame
from cliffordstf.data.readers.pickles import load_pickle
from cliffordstf.data.readers.record import system_id
from cliffordstf.errors import ConfigError, DataError


def read_system_references(path: Path | str) -> dict[int, float]:
    """Energies by system id, eV.

    Args:
        path: A pickle of a mapping from system names, or ids, to energies. It is read without running code.

    Raises:
        DataError: There is no such file, or it holds anything else.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise DataError(f"there is no file {path} with energies of systems; check data.system_reference.")
    content = load_pickle(path.read_bytes(), path.name)
    if not isinstance(content, dict) or not content:
        raise DataError(f"{path.name} holds no mapping from systems to energies; check data.system_reference.")
    found: dict[int, float] = {}
    for name, value in content.items():
        number = name if isinstance(name, int) else system_id(str(name))
        if number is None or not isinstance(value, float | int | np.number) or not np.isfinite(value):
            raise DataError(
                f"{path.name} says '{name}: {value!r}', but an energy by system reads 'random1000100: -146.0'; check "
                "data.system_reference."
            )
        found[number] = float(value)
    return found


def take_off(frames: Sequence[Frame], references: Mapping[int, float], file: str) -> list[Frame]:
    """Frames with the energy of their system taken off: adsorption energies from total ones.

    Raises:
        ConfigError: Frames do not say which system they are of.
        DataError: A system has no reference energy.
    """
    unknown = next((frame for frame in frames if frame.id is None), None)
    if unknown is not None:
        raise ConfigError(
            f"data.system_reference names systems, but {unknown.structure.name} of {file} does not say which it is of; "
            "use relaxations with their original names, or leave it out."
        )
    missing = next((frame.id for frame in frames if frame.id not in references), None)
    if missing is not None:
        raise DataError(f"data.system_reference has no energy for system {missing} of {file}; leave the system out.")
    return [
        frame if frame.energy is None else replace(frame, energy=frame.energy - references[_known(frame.id)])
        for frame in frames
    ]


def _known(number: int | None) -> int:
    assert number is not None
    return number
