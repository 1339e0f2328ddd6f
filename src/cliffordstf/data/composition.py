"""Energies per element fitted to the energies of structures, so that a few wrong labels do not spoil them.

One fit serves reference energies, the baseline of every table, and the search for energies that are out of line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from ase import units
from numpy.typing import NDArray

from cliffordstf.data.frame import Frame
from cliffordstf.data.structure import FloatArray

BoolArray = NDArray[np.bool_]
HEAVIEST = 118

FAR = 20.0
"""An energy is out of line beyond this many times the usual deviation from the fit,"""
LEAST = 0.5
"""and beyond this many eV per atom, which bonds and phases may well be worth."""
MOST_OUT_OF_LINE = 0.05
"""Where a larger share of structures (and more than one) is that far out, they are another population: all count."""
ROUNDS = 30
WIDTH = 8.0
"""eV: how far the energy of an element may at least be from what the other elements suggest."""
ALL_ELECTRON_WIDTH = 0.08
"""The same as a share of the energy of a free atom with all its electrons."""
IMPOSSIBLE = 12.0
"""Widths; an element whose energy is farther off than this has it from wrong labels."""

Pooling = Literal["sum", "mean"]


@dataclass(frozen=True)
class CompositionFit:
    """A least-squares fit of one energy per element.

    Attributes:
        energies: eV by atomic number.
        out_of_line: Indices of structures whose energies were left out of the fit, the farthest first.
        deviations: Of these from the fit, eV per atom.
        rank: Number of independent compositions.
    """

    energies: dict[int, float]
    out_of_line: NDArray[np.int64]
    deviations: FloatArray
    rank: int

    def of(self, frames: Sequence[Frame], pooling: Pooling = "sum") -> FloatArray:
        """Sum, or mean, of the energies of the atoms of each frame, eV, (frames,); 0 for elements without an energy."""
        elements = list(self.energies)
        values = composition_matrix(frames, elements) @ np.array([self.energies[number] for number in elements])
        sizes = np.array([len(frame.structure) for frame in frames])
        return np.asarray(values if pooling == "sum" else values / sizes)


def composition_matrix(frames: Sequence[Frame], elements: Sequence[int]) -> FloatArray:
    """How many atoms of each element each frame holds, (frames, elements)."""
    counts = [np.bincount(frame.structure.numbers, minlength=HEAVIEST + 1)[list(elements)] for frame in frames]
    return np.array(counts, dtype=np.float64).reshape(len(frames), len(elements))


def fit_composition(frames: Sequence[Frame], elements: Sequence[int], pooling: Pooling = "sum") -> CompositionFit:
    """Fit one energy per element to the energies of structures.

    Energies that are far from all others are found first, by a fit of absolute errors, and left out. What the rest do
    not determine follows from the other elements: an element that occurs in few structures is not made to carry what is
    special about these.

    Args:
        frames: With energies.
        elements: Atomic numbers to fit; atoms of others count as zero.
        pooling: Whether the value of a structure is the sum over its atoms or their mean.

    Example:
        >>> from cliffordstf import datasets
        >>> from cliffordstf.data.readers import read_frames
        >>> frames, _ = read_frames(datasets.path("ethanol_gfn2"))
        >>> fit = fit_composition(frames, (1, 6, 8))
        >>> fit.rank, len(fit.out_of_line)
        (1, 0)
    """
    values = np.array([frame.energy for frame in frames], dtype=np.float64)
    rows = composition_matrix(frames, elements)
    sizes = np.array([len(frame.structure) for frame in frames], dtype=np.float64)
    # Per atom, or large structures would count most; for one composition this changes nothing.
    rows, values = rows / sizes[:, None], (values / sizes if pooling == "sum" else values)
    rank = int(np.linalg.matrix_rank(rows)) if len(rows) else 0
    keep = _in_line(rows, values, rank, LEAST if pooling == "sum" else 0.0)
    fitted, prior, width = _damped(rows[keep], values[keep], elements)
    lonely = np.abs(fitted - prior) > IMPOSSIBLE * width
    if pooling == "sum" and (blamed := keep & _alone(rows[:, lonely])).any():
        keep &= ~blamed
        fitted, _, _ = _damped(rows[keep], values[keep], elements)
    deviations = values - rows @ fitted
    out = np.flatnonzero(~keep)
    out = out[np.argsort(-np.abs(deviations[out]), kind="stable")]
    return CompositionFit(dict(zip(elements, fitted.tolist(), strict=True)), out, deviations[out], rank)


def _in_line(rows: FloatArray, values: FloatArray, rank: int, least: float) -> BoolArray:
    """Which values are near a fit of absolute errors, which a few wild ones do not bend."""
    if len(values) < rank + 3:
        return np.ones(len(values), dtype=bool)
    floor = 1e-9 * (1 + float(np.abs(values).max()))
    weights = np.ones(len(values))
    for _ in range(ROUNDS):
        square = rows.T @ (rows * weights[:, None])
        solution = np.linalg.lstsq(square, rows.T @ (values * weights), rcond=None)[0]
        distance = np.abs(values - rows @ solution)
        weights = 1 / np.maximum(distance, floor)
    # As many values as unknowns lie on the fit by themselves and tell nothing about the usual deviation.
    usual = float(np.median(np.sort(distance)[rank:]))
    far = distance > max(FAR * usual, least, floor)
    is_population = far.sum() > max(1, MOST_OUT_OF_LINE * len(values))
    return np.asarray(~far | is_population)


def _alone(shares: FloatArray) -> BoolArray:
    """Structures that hold an element which occurs in no more than two; shares (structures, elements)."""
    holds = shares > 0
    return np.asarray((holds & (holds.sum(axis=0) <= 2)).any(axis=1))


def _damped(rows: FloatArray, values: FloatArray, elements: Sequence[int]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Least squares towards what is likely, as firmly as the scatter of the data asks for; what is likely; its width.

    Energies with all electrons grow with a power of the atomic number; with pseudopotentials, or relative to something
    else, the same energy for every element is the best that can be expected.
    """
    prior, width = np.zeros(len(elements)), np.full(len(elements), WIDTH)
    if not len(values):
        return prior, prior, width
    free = -0.5 * units.Hartree * np.asarray(elements, dtype=np.float64) ** 2.4
    predicted = rows @ free
    if np.abs(values - predicted).mean() < 0.25 * np.abs(predicted).mean():
        prior = float(np.median(values / predicted)) * free
        width = np.maximum(ALL_ELECTRON_WIDTH * np.abs(free), WIDTH)
    else:
        prior += float(np.median(values))
    rest = values - rows @ prior
    plain = width * np.linalg.lstsq(rows * width, rest, rcond=None)[0]
    freedom = len(values) - int(np.linalg.matrix_rank(rows))
    scatter = float(np.sqrt(np.sum((rest - rows @ plain) ** 2) / freedom)) if freedom > 0 else 0.0
    if scatter <= 1e-10 * float(np.abs(values).max()):
        return prior + plain, prior, width
    width = _widened(rows, plain, width, scatter)
    stacked = np.vstack([rows * width / scatter, np.eye(len(elements))])
    target = np.concatenate([rest / scatter, np.zeros(len(elements))])
    found = prior + width * np.linalg.lstsq(stacked, target, rcond=None)[0]
    # Damping must not move the mean: the shares of the elements add up to one, so the same shift of all restores it.
    return found + float(np.mean(values - rows @ found)), prior, width


def _widened(rows: FloatArray, plain: FloatArray, width: FloatArray, scatter: float) -> FloatArray:
    """Widths as large as the data show for the elements that they determine well."""
    spread = scatter * np.sqrt(np.diag(np.linalg.pinv(rows.T @ rows)))
    occurs = (rows > 0).sum(axis=0)
    sure = (spread < 0.1 * width) & (occurs > 2)
    if sure.sum() < 3:
        return width
    return width * max(1.0, 2.0 * float(np.sqrt(np.mean((plain[sure] / width[sure]) ** 2))))
