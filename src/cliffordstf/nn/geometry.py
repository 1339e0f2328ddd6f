"""What the layers need to know of the edges, computed once per forward."""

from dataclasses import dataclass

import torch
from torch import Tensor

from cliffordstf.algebra.stf import stf_powers
from cliffordstf.graph import EdgeIndex
from cliffordstf.nn.derivatives import with_jacobian


@dataclass(frozen=True)
class Geometry:
    """Lengths and directions of edges, or of pairs: then those of the straight edges.

    Attributes:
        edges: The directed edges.
        atoms: Number of atoms.
        distances: Å, (edges or pairs,).
        directions: Unit vectors from receivers to senders, (edges or pairs, 3).
    """

    edges: EdgeIndex
    atoms: int
    distances: Tensor
    directions: Tensor

    @classmethod
    def from_vectors(cls, vectors: Tensor, edges: EdgeIndex, atoms: int) -> "Geometry":
        """From the vectors of edges or pairs, Å, (edges or pairs, 3), none of which may vanish."""
        distances = vectors.norm(dim=1)
        return cls(edges, atoms, distances, vectors / distances[:, None])

    def pair_distances(self) -> Tensor:
        """Distances of the pairs, Å, (pairs,), from those of the edges."""
        return self.distances.index_select(0, self.edges.pair_edges[:, 0])

    def direction_tensors(self, lmax: int) -> Tensor:
        """STF tensors of the directions for degrees 0 … lmax, side by side, (edges or pairs, (lmax+1)²)."""
        if not self.directions.requires_grad or torch.compiler.is_compiling():
            return stf_powers(self.directions, lmax, unit=False)[0]
        with torch.no_grad():
            values, slopes = stf_powers(self.directions, lmax, unit=False)
        return with_jacobian(self.directions, values, slopes.mT, lambda n: stf_powers(n, lmax, unit=False)[0])

    def sum_over_edges(self, values: Tensor) -> Tensor:
        """Sum per-edge values (edges, ...) into their receivers, (atoms, ...)."""
        return values.new_zeros(self.atoms, *values.shape[1:]).index_add(0, self.edges.receivers, values)
