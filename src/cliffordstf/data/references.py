"""Isolated-atom energies (E0s): given, read from isolated atoms, or fitted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from cliffordstf.data.composition import Pooling, fit_composition
from cliffordstf.data.frame import Frame
from cliffordstf.data.structure import symbol
from cliffordstf.errors import DataError

ReferenceMode = Literal["auto", "isolated", "least-squares", "mean", "none"]
SUSPICIOUS_RESIDUAL = 15.0
"""eV per atom; cohesive energies are smaller, so a larger mean residual means that reference and data do not match."""
SAME_ENERGY = 1e-3
"""eV: isolated atoms of one element that differ by less are the same."""


@dataclass(frozen=True)
class References:
    """Energies of isolated atoms, which the model does not have to learn.

    Attributes:
        energies: eV by atomic number.
        mode: Where they come from.
        warnings: What the user should know.
        pooling: Whether a structure's reference is the sum over its atoms, or their mean.
        constant: Subtracted from every structure, whatever its size, eV.
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

        Its atoms, or one if they are averaged or a constant was subtracted from the whole.
        """
        return len(frame.structure) if self.pooling == "sum" and self.mode != "mean" else 1


def find_references(
    frames: Sequence[Frame],
    elements: Sequence[int],
    wanted: ReferenceMode | Mapping[int, float] = "auto",
    pooling: Pooling = "sum",
) -> References:
    """Isolated-atom energies of the given elements.

    Args:
        frames: Training structures; isolated atoms among them serve as references and are in no fit.
        elements: Atomic numbers.
        wanted: Energies by atomic number, or how to find them. `auto` takes isolated atoms where the data have one
            for every element, and a least-squares fit otherwise; `mean` subtracts the mean of the labels from
            every structure.
        pooling: Of the model: whether a structure's value is the sum over its atoms, or their mean. A mean is always
            fitted unless something else is asked for.

    Raises:
        DataError: An element has no energy in what was given, or there is nothing to fit to.
    """
    atoms, labelled = split_isolated([frame for frame in frames if frame.has_energy])
    if isinstance(wanted, Mapping):
        found = References(_complete(wanted, elements, "no isolated-atom energy was given"), "given")
    elif wanted == "none" or (wanted == "auto" and not (labelled or atoms)):
        return References(dict.fromkeys(elements, 0.0), "none", pooling=pooling)
    elif wanted == "mean":
        return _mean([*atoms, *labelled], elements, pooling)
    else:
        found = _from_data(atoms, labelled, elements, wanted, pooling)
    return _cross_checked(replace(found, pooling=pooling), labelled)


def _from_data(
    atoms: Sequence[Frame], labelled: Sequence[Frame], elements: Sequence[int], wanted: str, pooling: Pooling
) -> References:
    isolated, warnings = isolated_atoms(atoms)
    missing = [symbol(number) for number in elements if number not in isolated]
    if wanted == "isolated" or (wanted == "auto" and not missing and pooling == "sum"):
        return References(_complete(isolated, elements, "the data hold no isolated atom"), "isolated", tuple(warnings))
    if wanted == "auto" and isolated and pooling == "sum":
        warnings = [
            f"the data hold isolated atoms of {_symbols(isolated)}, but none of {', '.join(missing)}: energies of all "
            "elements are fitted instead; give the missing ones, too, for example in data.reference=FILE."
        ]
    else:
        warnings = []
    # Where a value is a mean over atoms, a single atom is a structure like any other.
    used = [*atoms, *labelled] if pooling == "mean" else labelled or atoms
    fitted = _least_squares(used, elements, pooling)
    return replace(fitted, warnings=(*warnings, *fitted.warnings))


def _symbols(numbers: Sequence[int] | Mapping[int, float]) -> str:
    return ", ".join(symbol(number) for number in sorted(numbers))


def split_isolated(frames: Sequence[Frame]) -> tuple[list[Frame], list[Frame]]:
    """Isolated atoms, and all other structures."""
    isolated: list[Frame] = []
    others: list[Frame] = []
    for frame in frames:
        (isolated if frame.is_isolated_atom else others).append(frame)
    return isolated, others


def _mean(frames: Sequence[Frame], elements: Sequence[int], pooling: Pooling) -> References:
    _need_energies(frames)
    mean = float(np.mean([frame.energy for frame in frames]))
    return References(dict.fromkeys(elements, 0.0), "mean", pooling=pooling, constant=mean)


def _need_energies(frames: Sequence[Frame]) -> None:
    if not frames:
        raise DataError(
            "no structure carries an energy, so isolated-atom energies cannot be fitted; set data.reference=none."
        )


def isolated_atoms(frames: Sequence[Frame]) -> tuple[dict[int, float], list[str]]:
    """Energies of isolated atoms by atomic number, eV, the lowest of each element, and warnings."""
    found: dict[int, list[float]] = {}
    for frame in frames:
        if frame.energy is not None and frame.has_energy:
            found.setdefault(int(frame.structure.numbers[0]), []).append(float(frame.energy))
    warnings = [
        f"isolated atoms of {symbol(number)} have energies from {min(values):.4f} to {max(values):.4f} eV: the lowest "
        "is used."
        for number, values in found.items()
        if max(values) - min(values) > SAME_ENERGY
    ]
    return {number: min(values) for number, values in found.items()}, warnings


def _complete(energies: Mapping[int, float], elements: Sequence[int], lack: str) -> dict[int, float]:
    missing = [symbol(number) for number in elements if number not in energies]
    if missing:
        raise DataError(
            f"{lack} for {', '.join(missing)}; add them, or have them fitted with data.reference=least-squares."
        )
    return {number: float(energies[number]) for number in elements}


def _least_squares(frames: Sequence[Frame], elements: Sequence[int], pooling: Pooling) -> References:
    _need_energies(frames)
    fit = fit_composition(frames, elements, pooling)
    warnings: list[str] = []
    if fit.rank < len(elements):
        warnings.append(
            f"the data have only {fit.rank} independent compositions for {len(elements)} elements, so fitted "
            "isolated-atom energies are right in sum only; give data.reference to compare other compositions."
        )
    if fit.rank == len(frames) > 1:
        warnings.append(
            f"the {len(frames)} structures have as many independent compositions, so fitted isolated-atom energies "
            "reproduce their energies and nothing is left to learn from these; give reference energies, or for "
            "energies that are relative to others already, such as adsorption energies, set data.reference=mean."
        )
    return References(fit.energies, "least-squares", tuple(warnings))


def _cross_checked(found: References, frames: Sequence[Frame]) -> References:
    """Warn when what is left after subtraction is too large to be a cohesive energy."""
    residuals = [
        (float(frame.energy) - found.of(frame)) / found.shares(frame)
        for frame in frames
        if frame.energy is not None and len(frame.structure) > 1
    ]
    if residuals and abs(middle := float(np.median(residuals))) > SUSPICIOUS_RESIDUAL:
        warning = (
            f"after the isolated-atom energies ({found.mode}) {middle:+.1f} eV per atom are left in half of the "
            "structures, more than any cohesive energy; are energies already referenced, in another unit, or from "
            "another method?"
        )
        return replace(found, warnings=(*found.warnings, warning))
    return found
