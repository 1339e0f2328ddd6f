"""The baseline of every table: a constant energy per element, zero forces, zero stress."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from ase.data import atomic_numbers

from cliffordstf.data.composition import Pooling, composition_matrix, fit_composition
from cliffordstf.data.frame import Frame
from cliffordstf.data.structure import FloatArray, symbol

PER_ELEMENT = "a constant energy per element"
PER_ATOM = "a constant energy per atom"
PER_STRUCTURE = "a constant energy per structure"


@dataclass(frozen=True)
class Baseline:
    """Energies of a model that learned nothing but the composition.

    Attributes:
        energies: eV by atomic number.
        constant: eV, added to every structure.
        pooling: Whether a structure's energy is the sum over its atoms, or their mean.
        kind: What is constant, in words.
    """

    energies: dict[int, float]
    constant: float = 0.0
    pooling: Pooling = "sum"
    kind: str = PER_ELEMENT

    def __call__(self, frames: Sequence[Frame]) -> FloatArray:
        """Energies of structures, eV, (frames,); NaN where an element has no energy."""
        elements = sorted({int(number) for frame in frames for number in frame.structure.numbers})
        values = np.array([self.energies.get(number, np.nan) for number in elements])
        counts = composition_matrix(frames, elements)
        sums = np.where(counts > 0, counts * values, 0.0).sum(axis=1)
        return np.asarray(self.constant + (sums if self.pooling == "sum" else sums / counts.sum(axis=1)))

    def as_json(self) -> dict[str, Any]:
        """Plain values, for the provenance of a model."""
        energies = {symbol(number): energy for number, energy in self.energies.items()}
        return {"energies_ev": energies, "constant_ev": self.constant, "pooling": self.pooling, "kind": self.kind}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Baseline":
        """What `as_json` gave."""
        energies = {int(atomic_numbers[name]): float(energy) for name, energy in values["energies_ev"].items()}
        return cls(energies, float(values["constant_ev"]), values["pooling"], str(values["kind"]))

    @classmethod
    def stored(cls, provenance: Mapping[str, Any]) -> "Baseline | None":
        """The baseline of a model's training set; None for models of versions that did not store it."""
        values = provenance.get("baseline")
        return cls.from_json(values) if isinstance(values, Mapping) and "energies_ev" in values else None


def fit_baseline(
    frames: Sequence[Frame],
    elements: Sequence[int] = (),
    pooling: Pooling = "sum",
    relative: bool = False,
    references: Mapping[int, float] | None = None,
) -> Baseline:
    """The baseline of a data set.

    Args:
        frames: Its structures; isolated atoms and those without an energy do not count.
        elements: Atomic numbers that get an energy beside those of the structures: what is likely for them.
        pooling: Of the model.
        relative: Energies are relative to something already, such as adsorption energies: one constant for all.
        references: Isolated-atom energies, eV by atomic number, that the fit starts from. They decide what the
            compositions leave open, such as the energy of an element that occurs in other structures only.

    Example:
        >>> from cliffordstf import datasets
        >>> from cliffordstf.data.readers import read_frames
        >>> frames, _ = read_frames(datasets.path("ethanol_gfn2"))
        >>> baseline = fit_baseline(frames)
        >>> round(1000 * np.abs(baseline(frames) - [frame.energy for frame in frames]).mean())
        112
    """
    labelled = [frame for frame in frames if frame.has_energy]
    bonded = [frame for frame in labelled if not frame.is_isolated_atom] or labelled
    every = sorted({*elements, *(int(number) for frame in frames for number in frame.structure.numbers)})
    if not bonded:
        return Baseline(dict.fromkeys(every, 0.0), pooling=pooling)
    energies = np.array([frame.energy for frame in bonded], dtype=np.float64)
    if relative:
        return Baseline(dict.fromkeys(every, 0.0), float(np.mean(energies)), pooling, PER_STRUCTURE)
    known = {number: (references or {}).get(number, 0.0) for number in every}
    start = composition_matrix(bonded, every) @ np.array(list(known.values()))
    if pooling == "mean":
        start = start / [len(frame.structure) for frame in bonded]
    rest = [replace(frame, energy=energy) for frame, energy in zip(bonded, (energies - start).tolist(), strict=True)]
    fit = fit_composition(rest, every, pooling)
    if fit.rank == len(bonded) > 1:
        # A fit without an error to speak of would be no baseline.
        sizes = [len(frame.structure) for frame in bonded] if pooling == "sum" else np.ones(len(bonded))
        return Baseline(dict.fromkeys(every, float(np.mean(energies / sizes))), pooling=pooling, kind=PER_ATOM)
    return Baseline({number: known[number] + fit.energies[number] for number in every}, pooling=pooling)
