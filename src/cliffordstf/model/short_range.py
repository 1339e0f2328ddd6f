"""Repulsion at distances shorter than those of the training data, where a network's energies have no meaning."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from ase.data import covalent_radii
from torch import Tensor, nn

from cliffordstf.algebra.repulsion import pull_back, repulsion
from cliffordstf.data.batch import Batch
from cliffordstf.data.structure import element_numbers, symbol
from cliffordstf.errors import ConfigError

UNSEEN = 0.75
"""Outer distance of elements that the data have no close pair of, as a share of the sum of their covalent radii."""


class ShortRange(nn.Module):
    """Nuclear repulsion below the shortest distances of the data.

    Beyond these it is exactly zero. Below, it rises while the network is shown a distance that hardly falls any more: a
    network that was never trained there can then not outweigh the repulsion.

    Args:
        elements: Atomic numbers in the order of the species index.
        distances: Shortest distance by pair of elements such as `H-O`, Å.

    Raises:
        ConfigError: A name is not a pair of elements, or a distance is not positive.
    """

    numbers: Tensor
    outer: Tensor

    def __init__(self, elements: tuple[int, ...], distances: Mapping[str, float]) -> None:
        super().__init__()
        known = _by_pair(distances)
        outer = [
            [known.get((min(a, b), max(a, b)), UNSEEN * float(covalent_radii[a] + covalent_radii[b])) for b in elements]
            for a in elements
        ]
        # Made from the config, so they are no part of the weights; double whatever the precision of the model.
        self.register_buffer("numbers", torch.tensor(elements, dtype=torch.float64), persistent=False)
        self.register_buffer("outer", torch.tensor(outer, dtype=torch.float64), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "ShortRange":
        exact = {name: getattr(self, name) for name in ("numbers", "outer")}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in exact.items():
            setattr(self, name, buffer.to(getattr(self, name).device))
        return self

    def limits(self, batch: Batch, species: Tensor) -> Tensor:
        """Outer distance of every pair, Å, (pairs,)."""
        first, second = _ends(batch, species)
        return self.outer[first, second]

    def is_near(self, batch: Batch, limits: Tensor) -> bool:
        """Whether any pair is below its outer distance."""
        return bool((batch.pair_vectors().detach().norm(dim=1) < limits).any())

    @staticmethod
    def shown(batch: Batch, limits: Tensor) -> Batch:
        """The batch as the network is shown it."""
        return replace(batch, floor=limits)

    def energies(self, batch: Batch, species: Tensor, limits: Tensor) -> Tensor:
        """Half of the repulsion of each pair at both of its atoms, eV, (atoms,); differentiable."""
        energy, _ = self._pairs(batch, species, limits)
        straight = batch.edges.pair_edges[:, 0]
        atoms = energy.new_zeros(len(batch.numbers))
        for ends in (batch.senders, batch.receivers):
            atoms = atoms.index_add(0, ends.index_select(0, straight), 0.5 * energy)
        return atoms

    def gradients(self, batch: Batch, species: Tensor, limits: Tensor, of_network: Tensor) -> Tensor:
        """Gradient of the energy with respect to the vectors of pairs, eV/Å, (pairs, 3).

        Args:
            batch: As it is.
            species: Of the atoms.
            limits: Of the pairs.
            of_network: Gradient of the network's energy with respect to the vectors that it was shown.
        """
        vectors = batch.pair_vectors().detach()
        _, slope = self._pairs(batch, species, limits)
        directions = vectors / vectors.norm(dim=1, keepdim=True)
        return pull_back(of_network, vectors, limits) + slope.detach()[:, None] * directions

    def _pairs(self, batch: Batch, species: Tensor, limits: Tensor) -> tuple[Tensor, Tensor]:
        first, second = _ends(batch, species)
        distances = batch.pair_vectors().norm(dim=1)
        return repulsion(distances, self.numbers[first], self.numbers[second], limits)


def _ends(batch: Batch, species: Tensor) -> tuple[Tensor, Tensor]:
    straight = batch.edges.pair_edges[:, 0]
    receivers, senders = batch.receivers.index_select(0, straight), batch.senders.index_select(0, straight)
    return species.index_select(0, receivers), species.index_select(0, senders)


def _by_pair(distances: Mapping[str, float]) -> dict[tuple[int, int], float]:
    found: dict[tuple[int, int], float] = {}
    for name, distance in distances.items():
        parts = name.split("-")
        if len(parts) != 2 or not distance > 0:
            raise ConfigError(
                f"option 'model.repulsion_distances' has '{name}: {distance}', but an entry is a pair of elements and "
                "a distance in Å, such as 'H-O: 0.9'."
            )
        first, second = (element_numbers([part])[0] for part in parts)
        found[min(first, second), max(first, second)] = float(distance)
    return found


def pair_name(first: int, second: int) -> str:
    """Name of a pair of elements.

    Example:
        >>> pair_name(8, 1)
        'H-O'
    """
    return f"{symbol(min(first, second))}-{symbol(max(first, second))}"
