"""What any potential must obey, whatever its architecture: measured here, judged by the caller.

Each function takes a potential in float64 and returns numbers, so that the same suite serves our presets, other
people's models behind the `Potential` interface, and anyone's own.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cliffordstf.data.structure import FloatArray, Structure
from cliffordstf.engine.prediction import Prediction
from cliffordstf.model.potential import Potential
from cliffordstf.verify.structures import random_cluster
from cliffordstf.verify.symmetries import prediction_error, relative_error


def force_error(potential: Potential, structure: Structure, step: float = 2e-6) -> float:
    """Relative error of conservative forces against central differences of the energy (step in Å)."""
    predicted = potential.predict(structure).forces
    assert predicted is not None
    numeric = torch.zeros_like(predicted)
    for atom in range(len(structure)):
        for axis in range(3):
            plus, minus = (
                _energy(potential, replace(structure, positions=_moved(structure, atom, axis, sign * step)))
                for sign in (1, -1)
            )
            numeric[atom, axis] = -(plus - minus) / (2 * step)
    return relative_error(predicted, numeric)


def stress_error(potential: Potential, structure: Structure, step: float = 1e-6) -> float:
    """Relative error of the stress against central differences of the energy under strain."""
    predicted = potential.predict(structure).stress
    assert predicted is not None
    volume = abs(float(np.linalg.det(structure.cell)))
    numeric = torch.zeros(3, 3, dtype=torch.float64)
    for i in range(3):
        for j in range(3):
            strain = np.zeros((3, 3))
            strain[i, j] += step / 2
            strain[j, i] += step / 2
            plus, minus = (_energy(potential, strained(structure, sign * strain)) for sign in (1, -1))
            numeric[i, j] = (plus - minus) / (2 * step * volume)
    return relative_error(predicted[0], numeric)


def strained(structure: Structure, strain: FloatArray) -> Structure:
    """The structure under a homogeneous strain (3, 3)."""
    deformation = np.eye(3) + strain
    return replace(structure, positions=structure.positions @ deformation, cell=structure.cell @ deformation)


@dataclass(frozen=True)
class CutoffJump:
    """Change across the cutoff sphere, between `step` Å inside and `step` Å outside.

    Attributes:
        energy: |ΔE|, eV.
        forces: Largest |ΔF|, eV/Å.
        curvature: Largest jump of dF/dr, one-sided differences from either side, eV/Å².
    """

    energy: float
    forces: float
    curvature: float


def cutoff_jump(potential: Potential, step: float) -> CutoffJump:
    """Move a probe atom through the cutoff sphere of one atom of a cluster, along the line that joins them.

    The rest of the cluster lies behind that atom, out of the probe's reach, so what is seen is one neighbour leaving
    and nothing else. A twice continuously differentiable energy gives jumps that vanish like step³, step² and step.
    """
    direction = np.array([0.36, 0.48, 0.8])
    behind = np.array([[-0.2, -0.9, -0.9], [-1.0, 0.1, -0.8], [-0.9, -1.5, -1.6]])
    elements = [potential.elements[index % len(potential.elements)] for index in range(5)]

    def at(offset: float) -> Prediction:
        probe = (potential.cutoff + offset) * direction
        return potential.predict(Structure(np.array(elements), np.vstack([np.zeros(3), behind, probe])))

    inner, inside, outside, outer = (at(offset * step) for offset in (-3, -1, 1, 3))
    f_inner, f_inside, f_outside, f_outer = (_forces(p) for p in (inner, inside, outside, outer))
    slope_inside, slope_outside = (f_inside - f_inner) / (2 * step), (f_outer - f_outside) / (2 * step)
    return CutoffJump(
        energy=float((outside.energy - inside.energy).abs().max()),
        forces=float((f_outside - f_inside).abs().max()),
        curvature=float((slope_outside - slope_inside).abs().max()),
    )


def continuous_derivatives(potential: Potential) -> int:
    """How many derivatives of the energy are continuous when a neighbour leaves; -1 if the energy itself jumps.

    2 means two or more. What is continuous changes less the closer one looks; a jump stays.
    """
    coarse, fine = (cutoff_jump(potential, step) for step in (1e-2, 1e-3))
    continuous = -1
    for wide, close in zip(vars(coarse).values(), vars(fine).values(), strict=True):
        if close > max(wide / 3, 1e-13):
            break
        continuous += 1
    return continuous


def supercell_error(potential: Potential, structure: Structure, repeats: int = 2) -> float:
    """Relative error when a crystal is described by `repeats`³ copies of its cell."""
    single = potential.predict(structure)
    shifts = np.array(
        [[a, b, c] for a in range(repeats) for b in range(repeats) for c in range(repeats)], dtype=np.float64
    )
    positions = (structure.positions[None] + (shifts @ structure.cell)[:, None]).reshape(-1, 3)
    copies = len(shifts)
    repeated = replace(
        structure,
        numbers=np.tile(structure.numbers, copies),
        positions=positions,
        cell=structure.cell * repeats,
    )
    expected = Prediction(
        energy=single.energy * copies,
        atom_energies=single.atom_energies.repeat(copies),
        forces=_forces(single).repeat(copies, 1),
        stress=single.stress,
    )
    return prediction_error(expected, potential.predict(repeated))


def cell_choice_error(potential: Potential, structure: Structure) -> float:
    """Relative error when the same crystal is written with another cell: left-handed, sheared, atoms unwrapped."""
    single = potential.predict(structure)
    left_handed = replace(structure, cell=structure.cell[[1, 0, 2]])
    sheared = replace(structure, cell=np.array([[1, 0, 0], [1, 1, 0], [-1, 2, 1]]) @ structure.cell)
    hops = np.random.default_rng(0).integers(-2, 3, size=(len(structure), 3))
    unwrapped = replace(structure, positions=structure.positions + hops @ structure.cell)
    return max(prediction_error(single, potential.predict(same)) for same in (left_handed, sheared, unwrapped))


def separation_error(potential: Potential, distance: float = 200.0) -> float:
    """Relative error of E(A + B far away) = E(A) + E(B), and the same for forces."""
    a, b = (random_cluster(potential.elements[:3], atoms=6, seed=seed) for seed in (1, 2))
    both = Structure(
        np.concatenate([a.numbers, b.numbers]), np.vstack([a.positions, b.positions + np.array([distance, 0, 0])])
    )
    return prediction_error(_joined(potential.predict(a), potential.predict(b), total=True), potential.predict(both))


def batch_error(potential: Potential, structures: list[Structure]) -> float:
    """Relative error between structures evaluated together and one by one."""
    together = potential.predict(structures)
    expected = potential.predict(structures[0])
    for structure in structures[1:]:
        expected = _joined(expected, potential.predict(structure), total=False)
    return prediction_error(expected, replace(together, stress=None))


def _joined(left: Prediction, right: Prediction, total: bool) -> Prediction:
    return Prediction(
        energy=left.energy + right.energy if total else torch.cat([left.energy, right.energy]),
        atom_energies=torch.cat([left.atom_energies, right.atom_energies]),
        forces=torch.cat([_forces(left), _forces(right)]),
    )


def _forces(prediction: Prediction) -> Tensor:
    assert prediction.forces is not None
    return prediction.forces


def _energy(potential: Potential, structure: Structure) -> float:
    return float(potential(potential.batch(structure), forces=False).energy[0])


def _moved(structure: Structure, atom: int, axis: int, by: float) -> FloatArray:
    positions = structure.positions.copy()
    positions[atom, axis] += by
    return positions
