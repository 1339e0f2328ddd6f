"""Plans: which couplings an operator sums, where it reads their operands and where it writes their results.

A plan is plain data made from the coupling table when a layer is built. Every implementation of an operator, the
PyTorch reference included, is generated from it.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor

from cliffordstf.algebra.couplings import TrackCoupling

_Tables: TypeAlias = dict[tuple[torch.dtype, torch.device], list[Tensor]]


@dataclass(frozen=True)
class EdgePath:
    """One coupling (node track a, edge track b -> track c) of an edge operator.

    Attributes:
        coupling: The entry of the coupling table.
        source: First component of track a in the node features.
        edge: First component of track b in the edge tensors.
        target: First component of track c in the result.
        weight: Row of the per-edge weights that multiplies this path.
        scale: Constant factor.
    """

    coupling: TrackCoupling
    source: int
    edge: int
    target: int
    weight: int
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class EdgePlan:
    """The trilinear form of an edge operator, summed over the edges j->i and the paths.

    out[i, target+k, ch] = Σ scale · C[a,b,k] · h[j, source+a, ch] · w[edge, weight, ch] · Y[edge, edge+b]

    Attributes:
        paths: The couplings that are summed.
        source_dims: Components of the node features.
        edge_dims: Components of the edge tensors Y.
        target_dims: Components of the result.
        weight_rows: Rows of the per-edge weights.
    """

    paths: tuple[EdgePath, ...]
    source_dims: int
    edge_dims: int
    target_dims: int
    weight_rows: int
    _tables: _Tables = field(default_factory=dict, init=False, repr=False)

    def tables(self, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
        """Scaled dense coefficients (dims a, dims b, dims c) of each path, made once per dtype and device."""
        return _cached_tables(self.paths, self._tables, dtype, device)


@dataclass(frozen=True)
class NodePath:
    """One coupling (track a of the left operand, track b of the right -> track c) of a node product.

    Attributes:
        coupling: The entry of the coupling table.
        left, right, target: First components of the tracks in the two operands and in the result.
        weight: Row of the per-channel weights that multiplies this path; unused in a plan without weights.
        scale: Constant factor.
    """

    coupling: TrackCoupling
    left: int
    right: int
    target: int
    weight: int = 0
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class NodePlan:
    """The bilinear form of a node product, summed over the paths.

    out[i, target+k, ch] = Σ scale · C[a,b,k] · x[i, left+a, ch] · y[i, right+b, ch] · w[weight, ch]

    Attributes:
        paths: The couplings that are summed.
        left_dims, right_dims, target_dims: Components of the operands and of the result.
        weight_rows: Rows of the per-channel weights, 0 for a plan without weights.
    """

    paths: tuple[NodePath, ...]
    left_dims: int
    right_dims: int
    target_dims: int
    weight_rows: int = 0
    _tables: _Tables = field(default_factory=dict, init=False, repr=False)

    def tables(self, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
        """Scaled dense coefficients (dims a, dims b, dims c) of each path, made once per dtype and device."""
        return _cached_tables(self.paths, self._tables, dtype, device)


@torch.inference_mode(False)
def _cached_tables(
    paths: tuple[EdgePath, ...] | tuple[NodePath, ...], cache: _Tables, dtype: torch.dtype, device: torch.device
) -> list[Tensor]:
    if (dtype, device) not in cache:
        cache[dtype, device] = [path.coupling.tensor(dtype, device) * path.scale for path in paths]
    return cache[dtype, device]
