"""Predictions of a potential beside the labels of a data set."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cliffordstf.data.frame import Frame
from cliffordstf.data.structure import FloatArray


@dataclass(frozen=True)
class Evaluation:
    """Predictions and labels of a data set, in eV and Å; labels that are missing are NaN.

    Attributes:
        frames: The labelled structures, in order.
        energy, energy_label: eV, (structures,).
        forces, force_labels: eV/Å, (all atoms, 3), atoms of one structure after another.
        stress, stress_labels: eV/Å³, (structures, 3, 3).
        structure_of_atom: (all atoms,).
        numbers: Atomic numbers, (all atoms,).
        baseline_energy: Energy of the baseline model, the training set's mean energy per composition or free-atom
            sum plus mean, eV, (structures,).
        reference_energy: Sum of the isolated-atom energies (E0s) of each structure, as the potential subtracts them,
            eV, (structures,); None where the potential has none.
        energy_std: Standard deviation over the members of an ensemble, eV, (structures,); None for one model.
        forces_std: The same of the forces, eV/Å, (all atoms, 3).
    """

    frames: list[Frame]
    energy: FloatArray
    energy_label: FloatArray
    forces: FloatArray
    force_labels: FloatArray
    stress: FloatArray
    stress_labels: FloatArray
    structure_of_atom: NDArray[np.int64]
    numbers: NDArray[np.int64]
    baseline_energy: FloatArray
    reference_energy: FloatArray | None = None
    energy_std: FloatArray | None = None
    forces_std: FloatArray | None = None

    @property
    def atoms_per_structure(self) -> NDArray[np.int64]:
        """(structures,)."""
        return np.bincount(self.structure_of_atom, minlength=len(self.frames))
