"""How far atoms are from those that a model was trained on, in terms of what the model itself computes.

The last scalar features of the training set's atoms have a mean and a covariance for each element. The distance of
another atom is that of Mahalanobis, divided by the one that a thousandth of the training set's own atoms exceed: above
1 an atom is like none of the training set. One model is enough, and one evaluation without a gradient.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cliffordstf.data.batch import Batch

PREFIX = "domain."
"""Of the names of these tensors in model files."""

QUANTILE = 0.999
MARGIN = 1.25
"""The distances of few atoms underestimate the tail of their distribution."""
FEWEST = 20
"""Atoms of an element that statistics are made of; of rarer ones every atom counts as outside by 1 or more."""


@dataclass(frozen=True)
class Domain:
    """Statistics of the training set, float64 on the CPU.

    Attributes:
        mean: By element, (elements, features).
        factor: Features times this have unit covariance, (elements, features, features).
        edge: Distance that counts as 1, (elements,); zero for elements without statistics.
    """

    mean: Tensor
    factor: Tensor
    edge: Tensor

    def measure(self, features: Tensor, species: Tensor) -> Tensor:
        """Distance of atoms from the training set, in units of its edge.

        Args:
            features: (atoms, features).
            species: Index of the element, (atoms,).

        Returns:
            (atoms,), float64; infinite for elements that the training set hardly has.
        """
        features, species = features.detach().cpu().double(), species.cpu()
        found = torch.full((len(species),), float("inf"), dtype=torch.float64)
        for element in species.unique().tolist():
            if self.edge[element] > 0:
                atoms = species == element
                away = (features[atoms] - self.mean[element]) @ self.factor[element]
                found[atoms] = away.norm(dim=1) / self.edge[element]
        return found

    def tensors(self) -> dict[str, Tensor]:
        """As a model file holds them."""
        return {PREFIX + name: value for name, value in vars(self).items()}

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor]) -> "Domain | None":
        """From the tensors of a model file; None if it has no statistics."""
        found = {name.removeprefix(PREFIX): value for name, value in tensors.items() if name.startswith(PREFIX)}
        if not found:
            return None
        domain = Domain(**found)
        elements, features = domain.mean.shape
        if domain.factor.shape != (elements, features, features) or domain.edge.shape != (elements,):
            raise ValueError("the statistics of its training set do not fit together")
        return domain


def fit_domain(samples: Iterable[tuple[Tensor, Tensor]], elements: int) -> Domain | None:
    """Statistics of a training set; half of its atoms make them, the other half finds the edge.

    Args:
        samples: Features (atoms, features) and species (atoms,) of each batch.
        elements: Elements of the model.
    """
    parts = [(features.detach().cpu().double(), species.cpu()) for features, species in samples]
    if not parts:
        return None
    features, species = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
    width = features.shape[1]
    mean, factor = features.new_zeros(elements, width), features.new_zeros(elements, width, width)
    edge = features.new_zeros(elements)
    for element in species.unique().tolist():
        values = features[species == element]
        if len(values) < FEWEST or not bool(values.isfinite().all()):
            continue
        mean[element], factor[element] = _statistics(values[0::2])
        others = (values[1::2] - mean[element]) @ factor[element]
        edge[element] = MARGIN * torch.quantile(others.norm(dim=1), QUANTILE).clamp_min(1e-12)
    return Domain(mean, factor, edge)


def _statistics(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and whitening matrix; the covariance is drawn towards a sphere where there are few atoms."""
    count, width = values.shape
    mean = values.mean(dim=0)
    covariance = (values - mean).T @ (values - mean) / count
    share = width / (count + width)
    sphere = torch.eye(width, dtype=values.dtype) * covariance.diagonal().mean().clamp_min(1e-12)
    covariance = (1 - share) * covariance + (share + 1e-6) * sphere
    return mean, torch.linalg.inv(torch.linalg.cholesky(covariance)).T


def last_readout(model: nn.Module) -> nn.Module | None:
    """The network that takes the last scalar features; None for models that have no such place."""
    readouts = getattr(model, "layer_readouts", None)
    return readouts[-1] if isinstance(readouts, nn.ModuleList) and len(readouts) else None


@contextmanager
def _caught(network: nn.Module) -> Iterator[list[Tensor]]:
    found: list[Tensor] = []
    handle = network.register_forward_pre_hook(lambda _, inputs: found.append(inputs[0]))
    try:
        yield found
    finally:
        handle.remove()


@torch.no_grad()
def scalar_features(model: nn.Module, batch: Batch, species: Tensor) -> Tensor | None:
    """The last scalar features of a batch's atoms, (atoms, features); distances are shown as they are."""
    network = last_readout(model)
    if network is None:
        return None
    with _caught(network) as found:
        model(batch, species)
    return found[-1]
