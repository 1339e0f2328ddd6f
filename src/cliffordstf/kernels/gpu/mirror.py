"""The kernel that makes the frames of pairs: one pair a thread, its matrices written as one row."""

import numpy as np

from cliffordstf.algebra.frames import AXES, raising
from cliffordstf.kernels.gpu.code import linear
from cliffordstf.kernels.gpu.frames import TINY, element_name, frame_size
from cliffordstf.kernels.gpu.program import Kernel

PAIRS = 32
"""Pairs of a program."""


def mirror_kernel(lmax: int) -> Kernel:
    """Frames (pairs, frame_size(lmax)) of unit vectors n (pairs, 3)."""
    size = frame_size(lmax)
    lines = [
        f"pair = tl.program_id(0).to(tl.int64) * {PAIRS} + tl.arange(0, {PAIRS})",
        "inside = pair < count",
        *(f"n{axis} = tl.load(n + 3 * pair + {axis}, mask=inside, other=0.0)" for axis in range(3)),
        "way = tl.where(n2 > 0, -1.0, 1.0).to(n2.dtype)",
        "m2 = n2 - way",  # so that nothing cancels
        "two = 2.0 / (n0 * n0 + n1 * n1 + m2 * m2)",
        f"row = frames + pair * {size}",
        "tl.store(row, way, mask=inside)",
        *_vectors(),
    ]
    for degree in range(2, lmax + 1):
        lines += _raised(degree)
    return Kernel("convolution_frames", ["n", "frames", "count"], lines, warps=1)


def _vectors() -> list[str]:
    """1 - 2 m m^T, in frame components."""
    names = ("n0", "n1", "m2")
    lines = []
    for row in range(3):
        for column in range(row, 3):
            one, other = (names[AXES[k]] for k in (row, column))
            value = f"{'1.0' if row == column else '0.0'} - two * {one} * {other}"
            lines += _kept(1, row, column, value)
    return lines


def _raised(degree: int) -> list[str]:
    """B (vectors x lower degree) B^T."""
    table = raising(degree)
    lines = []
    for row in range(2 * degree + 1):
        for column in range(row, 2 * degree + 1):
            sums: dict[str, float] = {}
            for i, j in np.argwhere(np.abs(table[row]) > TINY):
                for p, q in np.argwhere(np.abs(table[column]) > TINY):
                    vector, lower = element_name(1, int(i), int(p))[0], element_name(degree - 1, int(j), int(q))[0]
                    product = f"({vector} * {lower})"
                    sums[product] = sums.get(product, 0.0) + float(table[row, i, j] * table[column, p, q])
            terms = [(value, product) for product, value in sums.items() if abs(value) > TINY]
            lines += _kept(degree, row, column, linear(terms))
    return lines


def _kept(degree: int, row: int, column: int, value: str) -> list[str]:
    name, place = element_name(degree, row, column)
    return [f"{name} = {value}", f"tl.store(row + {place}, {name}, mask=inside)"]
