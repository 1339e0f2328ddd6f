"""Errors by structure, and which structures are worst."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cliffordstf.data.structure import FloatArray
from cliffordstf.train.evaluation import Evaluation
from cliffordstf.train.metrics import force_cosines, has_direction

MEV = 1000.0


@dataclass(frozen=True)
class StructureErrors:
    """One number per structure, (structures,); NaN without labels, infinite where predictions are not finite.

    Attributes:
        force_mae: Mean absolute error of the force components, meV/Å.
        force_worst: Largest length of a force error on one atom, meV/Å.
        force_cosine: Mean over the atoms whose true force has a direction.
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
        return not np.isnan(self.force_mae).all()

    def worst_first(self) -> NDArray[np.int64]:
        """Indices of structures by force error, or by energy error per atom where no forces are known."""
        key = self.force_mae if self.has_forces else np.abs(self.energy_per_atom)
        known = np.flatnonzero(~np.isnan(key))
        return np.asarray(known[np.argsort(-key[known], kind="stable")], dtype=np.int64)


def structure_errors(evaluation: Evaluation) -> StructureErrors:
    """Errors of every structure of an evaluation."""
    count, owner = len(evaluation.frames), evaluation.structure_of_atom
    error = _error(evaluation.forces, evaluation.force_labels) * MEV
    length = np.linalg.norm(error, axis=1)
    worst = np.full(count, -np.inf)
    known = ~np.isnan(length)
    np.maximum.at(worst, owner[known], length[known])
    directed = has_direction(evaluation)
    cosine = np.nan_to_num(force_cosines(evaluation)[directed], nan=np.inf)
    energy = _error(evaluation.energy, evaluation.energy_label) * MEV
    return StructureErrors(
        force_mae=_means(np.abs(error).ravel(), np.repeat(owner, 3), count),
        force_worst=np.where(worst == -np.inf, np.nan, worst),
        force_cosine=_means(cosine, owner[directed], count),
        energy=energy,
        energy_per_atom=energy / evaluation.atoms_per_structure,
    )


def _error(found: FloatArray, label: FloatArray) -> FloatArray:
    """Predicted minus true; NaN without a label, infinite where the prediction is not finite."""
    error = np.where(np.isfinite(found), found, np.inf) - label
    return np.where(np.isfinite(label), error, np.nan)


def _means(values: FloatArray, group: NDArray[np.int64], count: int) -> FloatArray:
    known = ~np.isnan(values)
    total = np.bincount(group[known], weights=values[known], minlength=count)
    number = np.bincount(group[known], minlength=count)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def unusable_predictions(evaluation: Evaluation) -> tuple[int, int, int]:
    """How many energies, forces of atoms and stresses are not finite although there is a label to compare them with."""
    energies = np.isfinite(evaluation.energy_label) & ~np.isfinite(evaluation.energy)
    forces = np.isfinite(evaluation.force_labels) & ~np.isfinite(evaluation.forces)
    stresses = np.isfinite(evaluation.stress_labels) & ~np.isfinite(evaluation.stress)
    return int(energies.sum()), int(forces.any(axis=1).sum()), int(stresses.any(axis=(1, 2)).sum())
