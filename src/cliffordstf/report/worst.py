"""Errors by structure, and which structures are worst."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cliffordstf.data.structure import FloatArray
from cliffordstf.train.evaluation import Evaluation
from cliffordstf.train.metrics import force_cosines

MEV = 1000.0


@dataclass(frozen=True)
class StructureErrors:
    """One number per structure, (structures,); NaN without labels.

    Attributes:
        force_mae: Mean absolute error of the force components, meV/Å.
        force_worst: Largest length of a force error on one atom, meV/Å.
        force_cosine: Mean over atoms.
        energy: Predicted minus true energy, meV.
        energy_per_atom: The same, meV/atom.
    """

    force_mae: FloatArray
    force_worst: FloatArray
    force_cosine: FloatArray
    energy: FloatArray
    energy_per_atom: FloatArray

    @property
    def has_forces(self) -> bool:
        """Whether any structure has a force error."""
        return bool(np.isfinite(self.force_mae).any())

    def worst_first(self) -> NDArray[np.int64]:
        """Indices of structures by force error, or by energy error per atom where no forces are known."""
        key = self.force_mae if self.has_forces else np.abs(self.energy_per_atom)
        known = np.flatnonzero(np.isfinite(key))
        return np.asarray(known[np.argsort(-key[known], kind="stable")], dtype=np.int64)


def structure_errors(evaluation: Evaluation) -> StructureErrors:
    """Errors of every structure of an evaluation."""
    count = len(evaluation.frames)
    error = (evaluation.forces - evaluation.force_labels) * MEV
    length = np.linalg.norm(error, axis=1)
    worst = np.full(count, -np.inf)
    known = np.isfinite(length)
    np.maximum.at(worst, evaluation.structure_of_atom[known], length[known])
    energy = (evaluation.energy - evaluation.energy_label) * MEV
    of_component = np.repeat(evaluation.structure_of_atom, 3)
    return StructureErrors(
        force_mae=_means(np.abs(error).ravel(), of_component, count),
        force_worst=np.where(np.isfinite(worst), worst, np.nan),
        force_cosine=_means(force_cosines(evaluation), evaluation.structure_of_atom, count),
        energy=energy,
        energy_per_atom=energy / evaluation.atoms_per_structure,
    )


def _means(values: FloatArray, group: NDArray[np.int64], count: int) -> FloatArray:
    known = np.isfinite(values)
    total = np.bincount(group[known], weights=values[known], minlength=count)
    number = np.bincount(group[known], minlength=count)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def unusable_predictions(evaluation: Evaluation) -> tuple[int, int]:
    """How many energies, and forces of atoms, are not finite although there is a label to compare them with."""
    energies = np.isfinite(evaluation.energy_label) & ~np.isfinite(evaluation.energy)
    forces = np.isfinite(evaluation.force_labels).all(axis=1) & ~np.isfinite(evaluation.forces).all(axis=1)
    return int(energies.sum()), int(forces.sum())
