"""What the layers need to know of the edges, computed once per forward."""

from dataclasses import dataclass

import torch
from torch import Tensor

from cliffordstf.algebra.stf import direction_norm, stf_power


@dataclass(frozen=True)
class Geometry:
    """Directed edges between atoms.

    Attributes:
        senders, receivers: int64 (edges,).
        atoms: Number of atoms.
        distances: Å, (edges,).
        directions: Unit vectors from receivers to senders, (edges, 3).
    """

    senders: Tensor
    receivers: Tensor
    atoms: int
    distances: Tensor
    directions: Tensor

    @classmethod
    def from_vectors(cls, vectors: Tensor, senders: Tensor, receivers: Tensor, atoms: int) -> "Geometry":
        """From edge vectors, Å, (edges, 3), none of which may vanish."""
        distances = vectors.norm(dim=1)
        return cls(senders, receivers, atoms, distances, vectors / distances[:, None])

    def direction_tensors(self, lmax: int, unit_components: bool) -> Tensor:
        """STF tensors of the directions for degrees 0 … lmax, side by side, (edges, (lmax+1)²).

        Args:
            lmax: Highest degree.
            unit_components: Scale degree l so that its squared Frobenius norm is 2l+1, one per component.
        """
        parts = []
        for degree in range(lmax + 1):
            scale = (2 * degree + 1) ** 0.5 / direction_norm(degree) if unit_components else 1.0
            parts.append(stf_power(self.directions, degree) * scale)
        return torch.cat(parts, dim=1)

    def sum_over_edges(self, values: Tensor) -> Tensor:
        """Sum per-edge values (edges, ...) into their receivers, (atoms, ...)."""
        return values.new_zeros(self.atoms, *values.shape[1:]).index_add(0, self.receivers, values)
