"""Error measures, each beside that of the baseline model (constant energy per element, zero forces, zero stress).

Energies are compared in meV, forces in meV/Å, stress in meV/Å³ and GPa. Thresholds of EwT and EFwT are in eV and eV/Å.
Every measure is a mean over the labels that are known, one by one: a masked component does not count. A prediction
that is not finite makes each measure that includes it NaN.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from ase import units
from ase.data import chemical_symbols
from numpy.typing import NDArray

from cliffordstf.data.structure import FloatArray
from cliffordstf.train.evaluation import Evaluation

MEV = 1000.0
GPA = 1.0 / float(units.GPa)
"""GPa in one eV/Å³."""
ENERGY_WITHIN = 0.02
"""eV: threshold of EwT, energy within threshold."""
FORCE_WITHIN = 0.03
"""eV/Å: force threshold of EFwT, energy and forces within threshold."""
COSINE_MIN_FORCE = 0.01
"""eV/Å: atoms with a smaller true force do not count in the force cosine.

DFT forces are typically converged to about this much, so the direction of a smaller one is noise, and symmetry makes
many forces exactly zero.
"""
COSINE_BINS = (0.0, COSINE_MIN_FORCE, 0.1, 0.3, 1.0, 3.0, np.inf)
"""eV/Å: edges of the bins of |F| in which force errors are reported; the first bin has no cosine."""
NO_CONFIG_TYPE = "Default"
"""Label of structures without one, where others have one."""


def compute_metrics(evaluation: Evaluation) -> dict[str, Any]:
    """All measures of an evaluation; a measure without labels is None.

    Keys end in their unit, and the same measure of the baseline model starts with `baseline_`. The force cosine covers
    `force_cosine_atoms` atoms; `force_cosine_left_out` more have a label below `COSINE_MIN_FORCE`.

    Args:
        evaluation: Predictions and labels, eV and Å.

    Returns:
        Numbers by name, and by group in `force_cosine_by_magnitude`, `per_element`, `per_tag` and `per_config_type`.

    Example:
        >>> from cliffordstf.data.frame import Frame
        >>> from cliffordstf.data.structure import Structure
        >>> atom = Frame(Structure(np.array([18]), np.zeros((1, 3))), energy=-1.0)
        >>> forces, stress, index = np.zeros((1, 3)), np.full((1, 3, 3), np.nan), np.array([0])
        >>> energies = {"energy": np.array([-1.1]), "energy_label": np.array([-1.0])}
        >>> found = Evaluation([atom], **energies, forces=forces, force_labels=forces, stress=stress,
        ...     stress_labels=stress, structure_of_atom=index, numbers=np.array([18]), baseline_energy=np.zeros(1))
        >>> metrics = compute_metrics(found)
        >>> round(metrics["energy_mae_mev"]), metrics["force_cosine"], metrics["force_cosine_left_out"]
        (100, None, 1)
    """
    return {
        **_label_metrics(evaluation),
        **_spread_metrics(evaluation),
        "force_cosine_by_magnitude": _by_magnitude(evaluation),
        "energy_within_threshold": _within(evaluation, forces=False),
        "energy_and_forces_within_threshold": _within(evaluation, forces=True),
        "thresholds": {
            "energy_ev": ENERGY_WITHIN,
            "force_ev_per_a": FORCE_WITHIN,
            "cosine_min_force_ev_per_a": COSINE_MIN_FORCE,
        },
        "per_element": _by_group(evaluation, evaluation.numbers, lambda number: chemical_symbols[number]),
        "per_tag": {} if (tags := _tags(evaluation)) is None else _by_group(evaluation, tags, str),
        "per_config_type": _by_config_type(evaluation),
    }


def force_cosines(evaluation: Evaluation) -> FloatArray:
    """Cosine of the angle between predicted and true force of every atom, (all atoms,).

    Zero where one of the two vanishes, NaN without a label and where the prediction is not finite. Means are taken
    over the atoms of `has_direction`.
    """
    true, found = evaluation.force_labels, evaluation.forces
    product = np.linalg.norm(true, axis=1) * np.linalg.norm(found, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = (true * found).sum(axis=1) / product
    return np.where(product == 0, 0.0, cosine)


def has_direction(evaluation: Evaluation) -> NDArray[np.bool_]:
    """Whether the true force of an atom is known and at least `COSINE_MIN_FORCE`, (all atoms,)."""
    # A comparison with NaN is false.
    return np.asarray(np.linalg.norm(evaluation.force_labels, axis=1) >= COSINE_MIN_FORCE)


def select_structures(evaluation: Evaluation, chosen: NDArray[np.int64]) -> Evaluation:
    """The evaluation of some of its structures.

    Args:
        evaluation: Predictions and labels.
        chosen: Indices of structures, (chosen,).
    """
    counts = evaluation.atoms_per_structure
    sizes = counts[chosen]
    before = np.cumsum(sizes) - sizes
    atoms = np.arange(sizes.sum()) + np.repeat((np.cumsum(counts) - counts)[chosen] - before, sizes)
    references = evaluation.reference_energy
    return replace(
        evaluation,
        frames=[evaluation.frames[index] for index in chosen],
        energy=evaluation.energy[chosen],
        energy_label=evaluation.energy_label[chosen],
        forces=evaluation.forces[atoms],
        force_labels=evaluation.force_labels[atoms],
        stress=evaluation.stress[chosen],
        stress_labels=evaluation.stress_labels[chosen],
        structure_of_atom=np.repeat(np.arange(len(chosen)), sizes),
        numbers=evaluation.numbers[atoms],
        baseline_energy=evaluation.baseline_energy[chosen],
        reference_energy=None if references is None else references[chosen],
        energy_std=None if evaluation.energy_std is None else evaluation.energy_std[chosen],
        forces_std=None if evaluation.forces_std is None else evaluation.forces_std[atoms],
    )


def _mean(values: FloatArray, labels: FloatArray) -> float | None:
    """Mean over the entries that have a label; a prediction that is not a number makes it NaN, never vanishes."""
    known = values[np.isfinite(labels)]
    return float(known.mean()) if len(known) else None


def _scaled(value: float | None, power: float = 1.0, unit: float = MEV) -> float | None:
    return None if value is None else float(value**power) * unit


def _label_metrics(evaluation: Evaluation) -> dict[str, Any]:
    """Errors of energy, forces and stress."""
    return {
        "n_structures": len(evaluation.frames),
        "n_atoms": len(evaluation.numbers),
        **_energy_metrics(evaluation),
        **_force_metrics(evaluation),
        **_stress_metrics(evaluation),
    }


def _spread_metrics(evaluation: Evaluation) -> dict[str, Any]:
    """Mean spread of an ensemble, and how well it ranks the errors of the forces; nothing for one model."""
    if evaluation.energy_std is None or evaluation.forces_std is None:
        return {}
    spread = np.linalg.norm(evaluation.forces_std, axis=1)
    error = np.linalg.norm(evaluation.forces - evaluation.force_labels, axis=1)
    known = np.isfinite(spread) & np.isfinite(error)
    return {
        "energy_std_mev": float(evaluation.energy_std.mean()) * MEV,
        "force_std_mev_per_a": float(spread.mean()) * MEV,
        "force_std_error_correlation": _rank_correlation(spread[known], error[known]),
    }


def _rank_correlation(first: FloatArray, second: FloatArray) -> float | None:
    """Spearman's coefficient; None where it is not defined."""
    if len(first) < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    ranks = [np.argsort(np.argsort(values)).astype(np.float64) for values in (first, second)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _energy_metrics(evaluation: Evaluation) -> dict[str, Any]:
    labels = evaluation.energy_label
    atoms = evaluation.atoms_per_structure
    result: dict[str, Any] = {}
    for prefix, energy in (("", evaluation.energy), ("baseline_", evaluation.baseline_energy)):
        error = energy - labels
        result |= {
            f"{prefix}energy_mae_mev": _scaled(_mean(np.abs(error), labels)),
            f"{prefix}energy_rmse_mev": _scaled(_mean(error**2, labels), 0.5),
            f"{prefix}energy_mae_mev_per_atom": _scaled(_mean(np.abs(error) / atoms, labels)),
            f"{prefix}energy_rmse_mev_per_atom": _scaled(_mean((error / atoms) ** 2, labels), 0.5),
        }
    return result


def _force_metrics(evaluation: Evaluation) -> dict[str, Any]:
    labels = evaluation.force_labels
    error = evaluation.forces - labels
    return {
        "force_mae_mev_per_a": _scaled(_mean(np.abs(error), labels)),
        "force_rmse_mev_per_a": _scaled(_mean(error**2, labels), 0.5),
        **_cosine_metrics(force_cosines(evaluation), np.linalg.norm(labels, axis=1)),
        "baseline_force_mae_mev_per_a": _scaled(_mean(np.abs(labels), labels)),
        "baseline_force_rmse_mev_per_a": _scaled(_mean(labels**2, labels), 0.5),
    }


def _cosine_metrics(cosines: FloatArray, sizes: FloatArray) -> dict[str, Any]:
    """Mean cosine of atoms, and how many of those with a label count in it; cosines and true |F|, eV/Å, (atoms,)."""
    used = sizes >= COSINE_MIN_FORCE
    return {
        "force_cosine": _mean(cosines[used], sizes[used]),
        "force_cosine_atoms": int(used.sum()),
        "force_cosine_left_out": int((sizes < COSINE_MIN_FORCE).sum()),
    }


def _by_magnitude(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Force errors of the atoms in each bin of the true force."""
    labels = evaluation.force_labels
    error = evaluation.forces - labels
    size = np.linalg.norm(labels, axis=1)
    cosine = force_cosines(evaluation)
    bins = []
    for low, high in pairwise(COSINE_BINS):
        inside = (size >= low) & (size < high)
        bins.append(
            {
                "from_ev_per_a": low,
                "to_ev_per_a": None if np.isinf(high) else high,
                "n_atoms": int(inside.sum()),
                "force_cosine": _cosine_metrics(cosine[inside], size[inside])["force_cosine"],
                "force_mae_mev_per_a": _scaled(_mean(np.abs(error[inside]), labels[inside])),
            }
        )
    return bins


def _stress_metrics(evaluation: Evaluation) -> dict[str, Any]:
    labels = evaluation.stress_labels
    result: dict[str, Any] = {}
    for prefix, error in (("", evaluation.stress - labels), ("baseline_", -labels)):
        for ending, unit in (("mev_per_a3", MEV), ("gpa", GPA)):
            result[f"{prefix}stress_mae_{ending}"] = _scaled(_mean(np.abs(error), labels), unit=unit)
            result[f"{prefix}stress_rmse_{ending}"] = _scaled(_mean(error**2, labels), 0.5, unit)
    return result


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
    size = np.linalg.norm(labels, axis=1)
    cosine = force_cosines(evaluation)
    result = {}
    for group in np.unique(groups).tolist():
        here = groups == group
        result[name(group)] = {
            "n_atoms": int(here.sum()),
            "force_mae_mev_per_a": _scaled(_mean(error[here], labels[here])),
            **_cosine_metrics(cosine[here], size[here]),
            "baseline_force_mae_mev_per_a": _scaled(_mean(np.abs(labels[here]), labels[here])),
        }
    return result


def _by_config_type(evaluation: Evaluation) -> dict[str, dict[str, Any]]:
    """Errors of the structures of each label, by label; empty where no structure has one."""
    labels = [frame.config_type for frame in evaluation.frames]
    if not any(labels):
        return {}
    members: dict[str, list[int]] = {}
    for index, label in enumerate(labels):
        members.setdefault(label or NO_CONFIG_TYPE, []).append(index)
    return {label: _label_metrics(select_structures(evaluation, np.array(members[label]))) for label in sorted(members)}
