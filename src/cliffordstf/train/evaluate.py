"""Run a potential over a data set."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from cliffordstf.data.baseline import Baseline, fit_baseline
from cliffordstf.data.composition import composition_matrix
from cliffordstf.data.dataset import BatchPlan, Dataset
from cliffordstf.data.shards.stored import has_label
from cliffordstf.data.structure import FloatArray
from cliffordstf.engine.prediction import Prediction
from cliffordstf.model.ensemble import Ensemble
from cliffordstf.model.potential import Potential
from cliffordstf.train.evaluation import Evaluation


class Labels(NamedTuple):
    """Those of a batch."""

    energy: Tensor
    forces: Tensor
    stress: Tensor


def evaluate(
    potential: Potential | Ensemble,
    dataset: Dataset,
    plan: BatchPlan,
    baseline: Baseline | None = None,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Predict every frame of a data set, in evaluation mode: without dropout, without touching running statistics.

    Forces and stress are predicted if any frame is labelled with them; else they are NaN.

    Args:
        potential: The potential, or several as one.
        dataset: Labelled structures.
        plan: How to batch them.
        baseline: Of the training set; by default one fitted to these structures.
        progress: Called with the number of structures done after each batch.
    """
    device = potential.species_of_number.device
    # What nobody can judge is not computed: forces take most of the time.
    wants_forces = has_label(dataset.frames, "forces")
    wants_stress = has_label(dataset.frames, "stress")
    found: list[tuple[Prediction, Labels]] = []
    with evaluating(potential):
        for labels in dataset.batches(plan):
            prediction = potential(labels.batch.to(device), forces=wants_forces, stress=wants_stress)
            # Not the batch itself: its edges would stay in memory for the whole data set.
            found.append((prediction, Labels(labels.energy, labels.forces, labels.stress)))
            if progress is not None:
                progress(labels.batch.size)
    atoms = dataset.atoms
    return Evaluation(
        frames=list(dataset.frames),
        energy=_join([p.energy for p, _ in found]),
        energy_label=_join([labels.energy for _, labels in found]),
        forces=_join([_forces(p) for p, _ in found]),
        force_labels=_join([labels.forces for _, labels in found]),
        stress=_join([_stress(p) for p, _ in found]),
        stress_labels=_join([labels.stress for _, labels in found]),
        structure_of_atom=np.repeat(np.arange(len(dataset)), atoms),
        numbers=np.concatenate([frame.structure.numbers for frame in dataset.frames]),
        baseline_energy=(baseline or fit_baseline(dataset.frames))(dataset.frames),
        reference_energy=_reference_energy(potential, dataset),
        energy_std=_join_some([p.energy_std for p, _ in found]),
        forces_std=_join_some([p.forces_std for p, _ in found]),
    )


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; afterwards every part is in the mode that it was in."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _join(parts: list[Tensor]) -> FloatArray:
    return np.asarray(torch.cat([part.detach().cpu() for part in parts]).numpy(), dtype=np.float64)


def _join_some(parts: list[Tensor | None]) -> FloatArray | None:
    return _join([part for part in parts if part is not None]) if parts and parts[0] is not None else None


def _reference_energy(potential: Potential | Ensemble, dataset: Dataset) -> FloatArray | None:
    """Sum of the isolated-atom energies of each structure, eV; None where the potential has none."""
    first = cast("Potential", potential.members[0]) if isinstance(potential, Ensemble) else potential
    energies = first.reference.energies.cpu().numpy()
    if first.pooling == "mean" or not energies.any():
        return None
    return np.asarray(composition_matrix(dataset.frames, first.elements) @ energies)


def _forces(prediction: Prediction) -> Tensor:
    missing = prediction.energy.new_full((len(prediction.atom_energies), 3), torch.nan)
    return missing if prediction.forces is None else prediction.forces


def _stress(prediction: Prediction) -> Tensor:
    missing = prediction.energy.new_full((len(prediction.energy), 3, 3), torch.nan)
    return missing if prediction.stress is None else prediction.stress
