"""Energies of free atoms: given, read from isolated atoms, or fitted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from cliffordstf.data.frame import Frame
from cliffordstf.data.neighbours import neighbour_list
from cliffordstf.data.structure import FloatArray, symbol
from cliffordstf.errors import DataError

Pooling = Literal["sum", "mean"]
ReferenceMode = Literal["auto", "isolated", "least-squares", "mean", "none"]
SUSPICIOUS_RESIDUAL = 15.0
"""eV per atom; cohesive energies are smaller, so a larger mean residual means that reference and data do not match."""

OUT_OF_REACH = 6.0
"""Å; an atom in a periodic box whose images are farther away counts as isolated."""


@dataclass(frozen=True)
class References:
    """Energies of free atoms.

    Attributes:
        energies: eV by atomic number.
        mode: Where they come from.
        warnings: What the user should know.
        pooling: Whether a structure's reference is the sum over its atoms, or their mean.
        constant: Taken off every structure, whatever its size, eV.
    """

    energies: dict[int, float]
    mode: str
    warnings: tuple[str, ...] = ()
    pooling: Pooling = "sum"
    constant: float = 0.0

    def of(self, frame: Frame) -> float:
        """Sum, or mean, over the atoms of a frame, and the constant, eV."""
        total = float(sum(self.energies.get(int(number), 0.0) for number in frame.structure.numbers))
        return self.constant + (total if self.pooling == "sum" else total / len(frame.structure))

    def shares(self, frame: Frame) -> int:
        """Into how many parts what is left of a frame's energy divides.

        Its atoms, or one if they are averaged or a constant was taken off the whole.
        """
        return len(frame.structure) if self.pooling == "sum" and self.mode != "mean" else 1


def find_references(
    frames: Sequence[Frame],
    elements: Sequence[int],
    wanted: ReferenceMode | Mapping[int, float] = "auto",
    pooling: Pooling = "sum",
) -> References:
    """Free-atom energies of the given elements.

    Args:
        frames: Training structures; isolated atoms among them serve as references.
        elements: Atomic numbers.
        wanted: Energies by atomic number, or how to find them. `auto` takes isolated atoms where the data have one
            for every element, and a least-squares fit otherwise; `mean` takes the mean of the labels off
            every structure.
        pooling: Of the model: whether a structure's value is the sum over its atoms, or their mean. A mean is always
            fitted unless something else is asked for.

    Raises:
        DataError: An element has no energy in what was given, or there is nothing to fit to.
    """
    labelled = [frame for frame in frames if frame.has_energy]
    if isinstance(wanted, Mapping):
        found = _given(wanted, elements)
    elif wanted == "none" or (wanted == "auto" and not labelled):
        return References(dict.fromkeys(elements, 0.0), "none", pooling=pooling)
    else:
        if wanted == "mean":
            return _mean(labelled, elements, pooling)
        isolated = isolated_atoms(labelled)
        has_all = set(elements) <= set(isolated) and pooling == "sum"
        if wanted == "isolated" or (wanted == "auto" and has_all):
            found = References(_complete(isolated, elements, "the data hold no isolated atom"), "isolated")
        else:
            found = _least_squares(labelled, elements, pooling)
    return _cross_checked(replace(found, pooling=pooling), labelled)


def _mean(frames: Sequence[Frame], elements: Sequence[int], pooling: Pooling) -> References:
    _need_energies(frames)
    mean = float(np.mean([frame.energy for frame in frames]))
    return References(dict.fromkeys(elements, 0.0), "mean", pooling=pooling, constant=mean)


def _need_energies(frames: Sequence[Frame]) -> None:
    if not frames:
        raise DataError("no structure carries an energy, so free-atom energies cannot be fitted; set reference: none.")


def isolated_atoms(frames: Sequence[Frame]) -> dict[int, float]:
    """Energies of one-atom frames whose images, if any, are out of reach, by atomic number, eV."""
    return {
        int(frame.structure.numbers[0]): float(frame.energy)
        for frame in frames
        if frame.energy is not None
        and len(frame.structure) == 1
        and len(neighbour_list(frame.structure, OUT_OF_REACH).senders) == 0
    }


def _given(wanted: Mapping[int, float], elements: Sequence[int]) -> References:
    return References(_complete(wanted, elements, "no free-atom energy was given"), "given")


def _complete(energies: Mapping[int, float], elements: Sequence[int], lack: str) -> dict[int, float]:
    missing = [symbol(number) for number in elements if number not in energies]
    if missing:
        raise DataError(
            f"{lack} for {', '.join(missing)}; add them, or let them be fitted with reference: least-squares."
        )
    return {number: float(energies[number]) for number in elements}


def composition_matrix(frames: Sequence[Frame], elements: Sequence[int]) -> FloatArray:
    """How many atoms of each element each frame holds, (frames, elements)."""
    return np.array([[np.sum(f.structure.numbers == number) for number in elements] for f in frames], dtype=np.float64)


def _least_squares(frames: Sequence[Frame], elements: Sequence[int], pooling: Pooling) -> References:
    _need_energies(frames)
    # An isolated atom is a composition like any other here.
    matrix = composition_matrix(frames, elements)
    if pooling == "mean":
        matrix /= matrix.sum(axis=1, keepdims=True)
    energies = np.array([frame.energy for frame in frames], dtype=np.float64)
    solution, _, rank, _ = np.linalg.lstsq(matrix, energies, rcond=None)
    warnings: tuple[str, ...] = ()
    if rank < len(elements):
        warnings = (
            f"the {len(frames)} structures have only {rank} independent compositions for {len(elements)} elements: the "
            "fitted free-atom energies are right in sum but not one by one, so do not compare energies across "
            "compositions that are not in the data; give reference energies or isolated atoms for that.",
        )
    if rank == len(frames) > 1:
        warnings += (
            f"no two of the {len(frames)} structures tell the same about the elements, so fitted free-atom energies "
            "say all that their energies do, and nothing is left to learn from these; give reference energies, or for "
            "energies that have been taken off others already, such as adsorption energies, set data.reference=mean.",
        )
    return References(dict(zip(elements, solution.tolist(), strict=True)), "least-squares", warnings)


def _cross_checked(found: References, frames: Sequence[Frame]) -> References:
    """Warn when what is left after subtraction is too large to be a cohesive energy."""
    residuals = [
        (float(frame.energy) - found.of(frame)) / found.shares(frame)
        for frame in frames
        if frame.energy is not None and len(frame.structure) > 1
    ]
    if residuals and abs(mean := float(np.mean(residuals))) > SUSPICIOUS_RESIDUAL:
        warning = (
            f"after the free-atom energies ({found.mode}) {mean:+.1f} eV per atom are left on average, more than any "
            "cohesive energy; are energies already referenced, in another unit, or from another method?"
        )
        return replace(found, warnings=(*found.warnings, warning))
    return found
