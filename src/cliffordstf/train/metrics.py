"""Error measures, each beside that of the baseline model (constant energy, zero forces).

Energies are compared in meV, forces in meV/Å, stress in meV/Å³. Thresholds of EwT and EFwT are in eV and eV/Å.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from ase.data import chemical_symbols
from numpy.typing import NDArray

from cliffordstf.data.structure import FloatArray
from cliffordstf.train.evaluation import Evaluation

MEV = 1000.0
ENERGY_WITHIN = 0.02
"""eV: threshold of EwT, energy within threshold."""
FORCE_WITHIN = 0.03
"""eV/Å: force threshold of EFwT, energy and forces within threshold."""
COSINE_BINS = (0.0, 0.1, 0.3, 1.0, 3.0, np.inf)
"""eV/Å: edges of the bins of |F| in which the force cosine is reported."""


def compute_metrics(evaluation: Evaluation) -> dict[str, Any]:
    """All measures of an evaluation; a measure without labels is None."""
    return {
        "n_structures": len(evaluation.frames),
        "n_atoms": len(evaluation.numbers),
        **_energy_metrics(evaluation),
        **_force_metrics(evaluation),
        **_stress_metrics(evaluation),
        "energy_within_threshold": _within(evaluation, forces=False),
        "energy_and_forces_within_threshold": _within(evaluation, forces=True),
        "thresholds": {"energy_ev": ENERGY_WITHIN, "force_ev_per_a": FORCE_WITHIN},
        "per_element": _by_group(evaluation, evaluation.numbers, lambda number: chemical_symbols[number]),
        "per_tag": {} if (tags := _tags(evaluation)) is None else _by_group(evaluation, tags, str),
    }


def _mean(values: FloatArray, labels: FloatArray) -> float | None:
    """Mean over the entries that have a label; a prediction that is not a number makes it NaN, never vanishes."""
    known = values[np.isfinite(labels)]
    return float(known.mean()) if len(known) else None


def _scaled(value: float | None, power: float = 1.0) -> float | None:
    return None if value is None else float(value**power) * MEV


def _energy_metrics(evaluation: Evaluation) -> dict[str, Any]:
    labels = evaluation.energy_label
    error = evaluation.energy - labels
    zero = evaluation.baseline_energy - labels
    atoms = evaluation.atoms_per_structure
    return {
        "energy_mae_mev": _scaled(_mean(np.abs(error), labels)),
        "energy_rmse_mev": _scaled(_mean(error**2, labels), 0.5),
        "energy_mae_mev_per_atom": _scaled(_mean(np.abs(error) / atoms, labels)),
        "energy_rmse_mev_per_atom": _scaled(_mean((error / atoms) ** 2, labels), 0.5),
        "baseline_energy_mae_mev": _scaled(_mean(np.abs(zero), labels)),
        "baseline_energy_rmse_mev": _scaled(_mean(zero**2, labels), 0.5),
        "baseline_energy_mae_mev_per_atom": _scaled(_mean(np.abs(zero) / atoms, labels)),
    }


def force_cosines(evaluation: Evaluation) -> FloatArray:
    """Cosine of the angle between predicted and true force of every atom.

    Zero where one of the two vanishes, NaN without a label and where the prediction is not a number.
    """
    true, found = evaluation.force_labels, evaluation.forces
    product = np.linalg.norm(true, axis=1) * np.linalg.norm(found, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = (true * found).sum(axis=1) / product
    return np.where(product == 0, 0.0, cosine)


def _force_metrics(evaluation: Evaluation) -> dict[str, Any]:
    labels = evaluation.force_labels
    error = evaluation.forces - labels
    cosine = force_cosines(evaluation)
    size = np.linalg.norm(labels, axis=1)
    bins = []
    for low, high in pairwise(COSINE_BINS):
        inside = (size >= low) & (size < high)
        bins.append(
            {
                "from_ev_per_a": low,
                "to_ev_per_a": None if np.isinf(high) else high,
                "n_atoms": int(inside.sum()),
                "force_cosine": _mean(cosine[inside], size[inside]),
                "force_mae_mev_per_a": _scaled(_mean(np.abs(error[inside]), labels[inside])),
            }
        )
    return {
        "force_mae_mev_per_a": _scaled(_mean(np.abs(error), labels)),
        "force_rmse_mev_per_a": _scaled(_mean(error**2, labels), 0.5),
        "force_cosine": _mean(cosine, size),
        "force_cosine_by_magnitude": bins,
        "baseline_force_mae_mev_per_a": _scaled(_mean(np.abs(labels), labels)),
        "baseline_force_rmse_mev_per_a": _scaled(_mean(labels**2, labels), 0.5),
    }


def _stress_metrics(evaluation: Evaluation) -> dict[str, Any]:
    labels = evaluation.stress_labels
    error = evaluation.stress - labels
    return {
        "stress_mae_mev_per_a3": _scaled(_mean(np.abs(error), labels)),
        "stress_rmse_mev_per_a3": _scaled(_mean(error**2, labels), 0.5),
        "baseline_stress_mae_mev_per_a3": _scaled(_mean(np.abs(labels), labels)),
    }


def _within(evaluation: Evaluation, forces: bool) -> float | None:
    """Share of structures whose energy (and every known force component) is within the threshold.

    Forces on fixed atoms are not known, and do not count; structures without any known force are left out.
    """
    error = np.abs(evaluation.energy - evaluation.energy_label)
    usable = np.isfinite(evaluation.energy_label)
    good = error < ENERGY_WITHIN
    if forces:
        known = np.isfinite(evaluation.force_labels).all(axis=1)
        far = known & ~(np.abs(evaluation.forces - evaluation.force_labels).max(axis=1) < FORCE_WITHIN)
        count = len(evaluation.frames)
        usable &= np.bincount(evaluation.structure_of_atom, known, count) > 0
        good &= np.bincount(evaluation.structure_of_atom, far, count) == 0
    return float(good[usable].mean()) if usable.any() else None


def _tags(evaluation: Evaluation) -> NDArray[np.int64] | None:
    """Of all atoms, (all atoms,); None unless every structure has them and they tell atoms apart."""
    tags = [frame.tags for frame in evaluation.frames if frame.tags is not None]
    if len(tags) < len(evaluation.frames) or len(np.unique(joined := np.concatenate(tags))) == 1:
        return None
    return joined


def _by_group(
    evaluation: Evaluation, groups: NDArray[np.int64], name: Callable[[int], str]
) -> dict[str, dict[str, Any]]:
    """Force errors of the atoms of each group; groups (all atoms,)."""
    labels = evaluation.force_labels
    error = np.abs(evaluation.forces - labels)
    cosine = force_cosines(evaluation)
    result = {}
    for group in np.unique(groups).tolist():
        here = groups == group
        result[name(group)] = {
            "n_atoms": int(here.sum()),
            "force_mae_mev_per_a": _scaled(_mean(error[here], labels[here])),
            "force_cosine": _mean(cosine[here], labels[here].sum(axis=1)),
            "baseline_force_mae_mev_per_a": _scaled(_mean(np.abs(labels[here]), labels[here])),
        }
    return result
