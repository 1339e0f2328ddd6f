"""Plans: which couplings an operator sums, where it reads their operands and where it writes their results.

A plan is plain data made from the coupling table when a layer is built. Every implementation of an operator, the
PyTorch reference included, is generated from it.
"""

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor, nn

from cliffordstf.algebra.couplings import TrackCoupling, track_coupling
from cliffordstf.algebra.tracks import BY_NAME

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
        plain: Whether plain PyTorch runs it even where there are compiled kernels; see `use_plain_pytorch`.
    """

    paths: tuple[EdgePath, ...]
    source_dims: int
    edge_dims: int
    target_dims: int
    weight_rows: int
    plain: bool = False
    _tables: _Tables = field(default_factory=dict, init=False, repr=False)

    def tables(self, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
        """Scaled dense coefficients (dims a, dims b, dims c) of each path, made once per dtype and device."""
        return _cached_tables(self.paths, self._tables, dtype, device)

    @cached_property
    def degree(self) -> int:
        """Highest degree of any track."""
        return max(t.degree for p in self.paths for t in (p.coupling.a, p.coupling.b, p.coupling.c))

    @cached_property
    def key(self) -> str:
        """The plan as text, from which `from_key` makes it again."""
        sizes = [self.source_dims, self.edge_dims, self.target_dims, self.weight_rows]
        return json.dumps(
            [sizes, [[*_names(p.coupling), p.source, p.edge, p.target, p.weight, p.scale] for p in self.paths]]
        )

    @classmethod
    def from_key(cls, key: str) -> "EdgePlan":
        """The plan of a key."""
        sizes, paths = json.loads(key)
        return cls(tuple(EdgePath(_coupling(path[:3]), *path[3:]) for path in paths), *sizes)


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
        plain: As of an `EdgePlan`.
    """

    paths: tuple[NodePath, ...]
    left_dims: int
    right_dims: int
    target_dims: int
    weight_rows: int = 0
    plain: bool = False
    _tables: _Tables = field(default_factory=dict, init=False, repr=False)

    def tables(self, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
        """Scaled dense coefficients (dims a, dims b, dims c) of each path, made once per dtype and device."""
        return _cached_tables(self.paths, self._tables, dtype, device)

    @cached_property
    def degree(self) -> int:
        """Highest degree of any track."""
        return max(t.degree for p in self.paths for t in (p.coupling.a, p.coupling.b, p.coupling.c))

    @cached_property
    def key(self) -> str:
        """The plan as text, from which `from_key` makes it again."""
        sizes = [self.left_dims, self.right_dims, self.target_dims, self.weight_rows]
        return json.dumps(
            [sizes, [[*_names(p.coupling), p.left, p.right, p.target, p.weight, p.scale] for p in self.paths]]
        )

    @classmethod
    def from_key(cls, key: str) -> "NodePlan":
        """The plan of a key."""
        sizes, paths = json.loads(key)
        return cls(tuple(NodePath(_coupling(path[:3]), *path[3:]) for path in paths), *sizes)


AS_IT_IS = -1
"""Index of the matrix of a track that no matrix multiplies."""


@dataclass(frozen=True)
class LinearTerm:
    """One feature that is multiplied by matrices, one matrix per track.

    Attributes:
        source_dims: Components of the feature.
        tracks: Of every track: its first component in the feature, its first component in the result, its components,
            the index of its matrix, or `AS_IT_IS`.
    """

    source_dims: int
    tracks: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True)
class LinearPlan:
    """A sum of linear maps of features over their channels.

    out[i, to+m] = scale · Σ over terms and tracks of x[i, from+m] · W[matrix]

    Attributes:
        terms: What is summed.
        target_dims: Components of the result; tracks that no term reaches are zero.
        scale: Constant factor.
        plain: As of an `EdgePlan`.
    """

    terms: tuple[LinearTerm, ...]
    target_dims: int
    scale: float = 1.0
    plain: bool = False

    @cached_property
    def key(self) -> str:
        """The plan as text, from which `from_key` makes it again."""
        return json.dumps([[[term.source_dims, term.tracks] for term in self.terms], self.target_dims, self.scale])

    @classmethod
    def from_key(cls, key: str) -> "LinearPlan":
        """The plan of a key."""
        terms, target_dims, scale = json.loads(key)
        parsed = tuple(LinearTerm(dims, tuple((a, b, c, d) for a, b, c, d in tracks)) for dims, tracks in terms)
        return cls(parsed, target_dims, scale)


@dataclass(frozen=True)
class GatePlan:
    """SiLU on the scalars, a sigmoid times every other track.

    out[i, 0] = silu_gain · silu(x[i, 0]), out[i, t] = sigmoid_gain · sigmoid(z[i, t] + b[t]) · x[i, t]

    Attributes:
        tracks: First component and number of components of every gated track; scalars are component 0.
        silu_gain, sigmoid_gain: Constant factors.
        plain: As of an `EdgePlan`.
    """

    tracks: tuple[tuple[int, int], ...]
    silu_gain: float
    sigmoid_gain: float
    plain: bool = False

    @cached_property
    def key(self) -> str:
        """The plan as text, from which `from_key` makes it again."""
        return json.dumps([self.tracks, self.silu_gain, self.sigmoid_gain])

    @classmethod
    def from_key(cls, key: str) -> "GatePlan":
        """The plan of a key."""
        tracks, silu_gain, sigmoid_gain = json.loads(key)
        return cls(tuple((start, dims) for start, dims in tracks), silu_gain, sigmoid_gain)


@torch.inference_mode(False)
def _cached_tables(
    paths: tuple[EdgePath, ...] | tuple[NodePath, ...], cache: _Tables, dtype: torch.dtype, device: torch.device
) -> list[Tensor]:
    if (dtype, device) not in cache:
        cache[dtype, device] = [path.coupling.tensor(dtype, device) * path.scale for path in paths]
    return cache[dtype, device]


def _names(coupling: TrackCoupling) -> list[str]:
    return [coupling.a.name, coupling.b.name, coupling.c.name]


def _coupling(names: list[str]) -> TrackCoupling:
    a, b, c = (BY_NAME[name] for name in names)
    return track_coupling(a, b, c)


AnyPlan: TypeAlias = EdgePlan | NodePlan | LinearPlan | GatePlan


def use_plain_pytorch(model: nn.Module) -> None:
    """Let plain PyTorch run every operator of a model, as on a machine without a compiler."""
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, AnyPlan):
                setattr(module, name, replace(value, plain=True))
            elif isinstance(value, list) and any(isinstance(item, AnyPlan) for item in value):
                setattr(module, name, [replace(plan, plain=True) for plan in value])
