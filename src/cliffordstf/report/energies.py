"""Energies as a parity plot shows them: per atom, without what depends on the composition alone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cliffordstf.data.references import SUSPICIOUS_RESIDUAL
from cliffordstf.data.structure import FloatArray
from cliffordstf.train.evaluation import Evaluation

MEV = 1000.0
SMALL_RANGE = 2.0
"""eV/atom: energies within this distance of zero are shown in meV."""
LARGE_OFFSET = 100.0
"""Times the spread of the energies: with a larger offset the numbers at the axis differ in their last digits only."""


@dataclass(frozen=True)
class ShownEnergies:
    """Energies per atom of the structures whose energy is known and predicted.

    Attributes:
        label: In `unit`, (shown,).
        found: Predictions, the same way.
        without: What was subtracted, as in `isolated atoms` or `mean`; empty for nothing.
        unit: eV/atom or meV/atom.
        mean: Mean energy that was subtracted last, eV/atom; None if there was no such shift.
    """

    label: FloatArray
    found: FloatArray
    without: str
    unit: str
    mean: float | None

    @property
    def suffix(self) -> str:
        """End of an axis label, as in ` − isolated atoms (eV/atom)`."""
        return f"{' − ' if self.without else ''}{self.without} ({self.unit})"


def shown_energies(evaluation: Evaluation) -> ShownEnergies | None:
    """Energies per atom to plot; None without labels.

    Isolated-atom energies are subtracted where there are any that fit the labels. Where there are none, the mean is
    subtracted from structures of one composition, and a least-squares energy of each element from others: their
    differences in composition would hide all else.
    """
    known = np.isfinite(evaluation.energy_label) & np.isfinite(evaluation.energy)
    if not known.any():
        return None
    atoms = evaluation.atoms_per_structure[known]
    label, found = evaluation.energy_label[known] / atoms, evaluation.energy[known] / atoms
    reference = _reference(evaluation)
    if reference is not None and _fits(label - reference[known] / atoms):
        offset, without = reference[known] / atoms, "isolated atoms"
    elif (fitted := _fitted(evaluation, known, label)) is not None:
        offset, without = fitted, "fit per element"
    else:
        offset, without = np.zeros(len(label)), ""
    label, found = label - offset, found - offset
    mean = None
    if not without or abs(float(label.mean())) > LARGE_OFFSET * float(np.ptp(label)) > 0:
        mean = float(label.mean())
        label, found, without = label - mean, found - mean, f"{without} − mean" if without else "mean"
    if float(np.abs(label).max()) < SMALL_RANGE:
        return ShownEnergies(label * MEV, found * MEV, without, "meV/atom", mean)
    return ShownEnergies(label, found, without, "eV/atom", mean)


def _reference(evaluation: Evaluation) -> FloatArray | None:
    """Isolated-atom energies, eV, (structures,); None where nothing is subtracted."""
    reference = evaluation.reference_energy
    return None if reference is None or not reference.any() else reference


def _fits(beyond: FloatArray) -> bool:
    """Whether energies beyond the isolated atoms, eV/atom, are as small as cohesive energies are."""
    return bool(np.median(np.abs(beyond)) <= SUSPICIOUS_RESIDUAL)


def _fitted(evaluation: Evaluation, known: NDArray[np.bool_], label: FloatArray) -> FloatArray | None:
    """Least-squares energy of each element, summed over the atoms of the known structures, eV/atom.

    None for structures of one composition, and where so few structures leave a fit without error.
    """
    elements, column = np.unique(evaluation.numbers, return_inverse=True)
    count = len(evaluation.frames)
    cells = np.bincount(evaluation.structure_of_atom * len(elements) + column, minlength=count * len(elements))
    shares = (cells.reshape(count, -1) / evaluation.atoms_per_structure[:, None])[known]
    if np.allclose(shares, shares[0]):
        return None
    solution, _, rank, _ = np.linalg.lstsq(shares, label, rcond=None)
    return None if rank >= len(label) else np.asarray(shares @ solution)
