"""Rotate, reflect, shift and permute structures, and see what a potential makes of it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cliffordstf.algebra.actions import random_rotation
from cliffordstf.data.structure import Structure
from cliffordstf.engine.prediction import Prediction
from cliffordstf.model.build import build
from cliffordstf.model.config import DefaultConfig
from cliffordstf.model.potential import Potential
from cliffordstf.model.presets import PRESETS, preset
from cliffordstf.verify.structures import random_cluster, triclinic_crystal

TOLERANCES: dict[torch.dtype, float] = {torch.float64: 1e-9, torch.float32: 1e-4}
ELEMENTS = (1, 6, 8)


@dataclass(frozen=True)
class SymmetryCheck:
    """Largest relative errors over the test structures; None where a symmetry is not claimed."""

    rotation: float
    inversion: float | None
    translation: float
    permutation: float

    def errors(self) -> dict[str, float]:
        """The claimed symmetries and their errors."""
        every = {
            "rotation": self.rotation,
            "inversion": self.inversion,
            "translation": self.translation,
            "permutation": self.permutation,
        }
        return {name: error for name, error in every.items() if error is not None}

    def passed(self, tolerance: float) -> bool:
        """Whether every claimed symmetry holds."""
        return all(error < tolerance for error in self.errors().values())


def check_symmetries(potential: Potential, claims_o3: bool, seed: int = 0) -> SymmetryCheck:
    """Energy, forces and stress of a cluster and a crystal under the symmetries of space."""
    generator = torch.Generator().manual_seed(seed)
    elements = tuple(number for number in ELEMENTS if number in potential.elements)
    structures = [random_cluster(elements, atoms=8, seed=seed), triclinic_crystal(elements, seed=seed)]
    worst = {"rotation": 0.0, "inversion": 0.0, "translation": 0.0, "permutation": 0.0}
    for structure in structures:
        before = potential.predict(structure)
        rotation = random_rotation(generator)
        worst["rotation"] = max(worst["rotation"], orthogonal_error(potential, structure, before, rotation))
        if claims_o3:
            inversion = -torch.eye(3, dtype=torch.float64)
            worst["inversion"] = max(worst["inversion"], orthogonal_error(potential, structure, before, inversion))
        shift = torch.randn(3, generator=generator, dtype=torch.float64).numpy() * 3
        moved = potential.predict(replace(structure, positions=structure.positions + shift))
        worst["translation"] = max(worst["translation"], prediction_error(before, moved))
        order = torch.randperm(len(structure), generator=generator)
        permuted = potential.predict(
            replace(structure, numbers=structure.numbers[order.numpy()], positions=structure.positions[order.numpy()])
        )
        worst["permutation"] = max(worst["permutation"], prediction_error(_permute(before, order), permuted))
    inverted = worst["inversion"] if claims_o3 else None
    return SymmetryCheck(worst["rotation"], inverted, worst["translation"], worst["permutation"])


def orthogonal_error(potential: Potential, structure: Structure, before: Prediction, matrix: Tensor) -> float:
    """Relative error when a structure is turned by an element of O(3), energy, forces and stress together."""
    after = potential.predict(transform(structure, matrix))
    assert before.forces is not None
    expected = replace(
        before,
        forces=before.forces @ matrix.T,
        stress=None if before.stress is None else matrix @ before.stress @ matrix.T,
    )
    return prediction_error(expected, after)


def transform(structure: Structure, matrix: Tensor) -> Structure:
    """The structure turned by an orthogonal matrix (3, 3)."""
    turned = matrix.numpy()
    return replace(structure, positions=structure.positions @ turned.T, cell=structure.cell @ turned.T)


def prediction_error(expected: Prediction, found: Prediction) -> float:
    """Largest relative error of energy (against the sum of |atomic energies|), atomic energies, forces and stress."""
    scale = expected.atom_energies.abs().sum()
    errors = [
        float((expected.energy - found.energy).abs().max() / scale),
        relative_error(expected.atom_energies, found.atom_energies),
    ]
    for left, right in ((expected.forces, found.forces), (expected.stress, found.stress)):
        if left is not None and right is not None:
            errors.append(relative_error(left, right))
    return max(errors)


def relative_error(expected: Tensor, found: Tensor) -> float:
    """Largest absolute deviation over the largest value."""
    return float((expected - found).abs().max() / expected.abs().max().clamp(min=1e-300))


def _permute(prediction: Prediction, order: Tensor) -> Prediction:
    assert prediction.forces is not None
    return replace(prediction, atom_energies=prediction.atom_energies[order], forces=prediction.forces[order])


def variants() -> dict[str, tuple[str, dict[str, Any]]]:
    """What `verify` goes through: every preset, and the default model at each lmax. Label -> (preset, overrides)."""
    named: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in PRESETS}
    return named | {f"default lmax={lmax}": ("default", {"lmax": lmax}) for lmax in (1, 2, 3, 4)}


def check_variant(label: str, dtype: torch.dtype, seed: int = 0) -> SymmetryCheck:
    """Build one of `variants()` with random weights and check it."""
    name, overrides = variants()[label]
    potential = build(name, elements=np.array(ELEMENTS), seed=seed, **overrides).to(dtype)
    return check_symmetries(potential, claims_o3=isinstance(preset(name), DefaultConfig), seed=seed)
