"""From stresses and virials as files have them to symmetric matrices in eV/Å³."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cliffordstf.data.frame import Frame
from cliffordstf.data.readers.record import Record
from cliffordstf.data.stress_order import VOIGT, Sample, find_orders, places
from cliffordstf.data.structure import FloatArray

Orders = Sequence[str | None]
"""Order of the shear components of each structure; None where it is not known."""


def symmetric_matrix(values: ArrayLike, order: str | None = VOIGT) -> FloatArray:
    """A symmetric (3, 3) matrix.

    Args:
        values: 9 numbers; or 6: xx, yy, zz and the shear components.
        order: Of the shear components of 6 numbers. None leaves them NaN, unless all three are the same.
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    if array.size == 6:
        shear = array[3:]
        if order is None and np.ptp(shear) > 0:
            shear = np.full(3, np.nan)
        yz, xz, xy = shear[list(places(order or VOIGT))]
        array = np.array([array[0], xy, xz, xy, array[1], yz, xz, yz, array[2]])
    matrix = array.reshape(3, 3)
    return 0.5 * (matrix + matrix.T)


def known_orders(
    frames: Sequence[Frame], records: Sequence[Record], key: str, fixed: str | None
) -> tuple[Orders, list[str]]:
    """The order in each structure, and what the user should read about it.

    Args:
        frames: With forces and, where the file has them, labels of the kind of calculation.
        records: The same structures as the file has them.
        key: Of the stress or virial.
        fixed: The order that the user or the format states; None to find it.
    """
    if fixed is not None:
        return [fixed] * len(frames), []
    groups: dict[str, list[int]] = defaultdict(list)
    for index, (frame, record) in enumerate(zip(frames, records, strict=True)):
        if key in record.properties and np.size(record.properties[key]) == 6 and np.ptp(_shear(record, key)) > 0:
            groups[frame.config_type or ""].append(index)
    found = find_orders(
        {
            name: [
                Sample(frames[i].structure, _forces(frames[i]), _shear(records[i], key))
                for i in members
                if frames[i].has_forces and frames[i].structure.pbc.all()
            ]
            for name, members in groups.items()
        }
    )
    orders: list[str | None] = [None] * len(frames)
    for name, members in groups.items():
        for index in members:
            orders[index] = found[name]
    return orders, _report(groups, found)


def _shear(record: Record, key: str) -> FloatArray:
    return np.asarray(record.properties[key], dtype=np.float64).ravel()[3:]


def _forces(frame: Frame) -> FloatArray:
    assert frame.forces is not None
    return frame.forces


def _report(groups: dict[str, list[int]], found: dict[str, str | None]) -> list[str]:
    by_order: dict[str | None, list[str]] = defaultdict(list)
    for name, members in groups.items():
        by_order[found[name]].append(f"{name or 'all'} ({len(members)})")
    lines = []
    established = [f"{order} in {', '.join(names)}" for order, names in by_order.items() if order is not None]
    if established:
        lines.append(
            "the file does not state the order of the shear components of the stress; it was found from the forces: "
            f"{'; '.join(established)}. data.stress_order sets it."
        )
    if None in by_order:
        lines.append(
            "the order of the shear components of the stress could not be established for "
            f"{', '.join(by_order[None])}: these components are left out, xx, yy and zz are used. data.stress_order "
            "sets it."
        )
    return lines


def dropped_stress(records: Sequence[Record], frames: Sequence[Frame], key: str | None) -> list[str]:
    """Warning for stresses of structures without a volume."""
    dropped = sum(
        key in record.properties and frame.stress is None for record, frame in zip(records, frames, strict=True)
    )
    return [f"'{key}' of {dropped} structures without a periodic cell was left out."] if key and dropped else []
