"""Run a potential over a data set."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from cliffordstf.data.dataset import BatchPlan, Dataset
from cliffordstf.data.references import References, composition_matrix
from cliffordstf.data.structure import FloatArray
from cliffordstf.model.committee import Committee
from cliffordstf.model.potential import Potential, Prediction
from cliffordstf.train.evaluation import Evaluation


class BaselineModel(Protocol):
    """Energies of the baseline model."""

    def __call__(self, dataset: Dataset) -> FloatArray:
        """eV, (frames,)."""
        ...


def constant_energy(train: Dataset, references: References) -> BaselineModel:
    """The baseline energy: free atoms plus the training set's mean of what is left per atom.

    For structures of one composition this is the mean energy of the training set.
    """
    residuals = [
        (float(frame.energy) - references.of(frame)) / references.shares(frame)
        for frame in train.frames
        if frame.energy is not None and frame.has_energy
    ]
    mean = float(np.mean(residuals)) if residuals else 0.0
    return lambda dataset: np.array([references.of(f) + mean * references.shares(f) for f in dataset.frames])


def own_constant_energy(dataset: Dataset) -> FloatArray:
    """The baseline without a training set: a least-squares fit of energies per element to the data themselves.

    Where so few structures, or so many compositions, leave a fit without error, it says nothing: the mean energy per
    atom is taken instead.
    """
    elements = sorted({int(number) for frame in dataset.frames for number in frame.structure.numbers})
    matrix = composition_matrix(dataset.frames, elements)
    energies = np.array([np.nan if f.energy is None else f.energy for f in dataset.frames], dtype=np.float64)
    known = np.isfinite(energies)
    if not known.any():
        return np.full(len(energies), np.nan)
    solution, _, rank, _ = np.linalg.lstsq(matrix[known], energies[known], rcond=None)
    if rank == known.sum():
        atoms = matrix.sum(axis=1)
        return np.asarray(atoms * np.mean(energies[known] / atoms[known]))
    return np.asarray(matrix @ solution)


class Labels(NamedTuple):
    """Those of a batch."""

    energy: Tensor
    forces: Tensor
    stress: Tensor


def evaluate(
    potential: Potential | Committee,
    dataset: Dataset,
    plan: BatchPlan,
    baseline: BaselineModel = own_constant_energy,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Predict every frame of a data set, in evaluation mode: without dropout, without touching running statistics.

    Forces and stress are predicted if any frame is labelled with them; else they are NaN.

    Args:
        potential: The potential, or several as one.
        dataset: Labelled structures.
        plan: How to batch them.
        baseline: Energies of the baseline model.
        progress: Called with the number of structures done after each batch.
    """
    device = potential.species_of_number.device
    # What nobody can judge is not computed: forces take most of the time.
    wants_forces = any(frame.has_forces for frame in dataset.frames)
    wants_stress = any(frame.has_stress for frame in dataset.frames)
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
        frames=dataset.frames,
        energy=_join([p.energy for p, _ in found]),
        energy_label=_join([labels.energy for _, labels in found]),
        forces=_join([_forces(p) for p, _ in found]),
        force_labels=_join([labels.forces for _, labels in found]),
        stress=_join([_stress(p) for p, _ in found]),
        stress_labels=_join([labels.stress for _, labels in found]),
        structure_of_atom=np.repeat(np.arange(len(dataset)), atoms),
        numbers=np.concatenate([frame.structure.numbers for frame in dataset.frames]),
        baseline_energy=baseline(dataset),
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


def _forces(prediction: Prediction) -> Tensor:
    missing = prediction.energy.new_full((len(prediction.atom_energies), 3), torch.nan)
    return missing if prediction.forces is None else prediction.forces


def _stress(prediction: Prediction) -> Tensor:
    missing = prediction.energy.new_full((len(prediction.energy), 3, 3), torch.nan)
    return missing if prediction.stress is None else prediction.stress
