"""The paper's dual-track message, rewritten so that no matrix over channels runs on edges.

The paper's message from j to i is, with α the attention weight, e the edge multivector and ρ a radial function,

  Clifford:  α [W1 GP(h_j, e) + W2 GP(e, h_j) + W_skip h_j⁽⁰⁾ + W_cross S_j·v_j]
  STF2:      ρ (W_gen STF2(v_j, r̂) + W_send S_j) + W_edge s_j e⁽²⁾
  STF3:      ρ (W_gen STF3(S_j, r̂) + W_send T_j)

Every W commutes with the sum over j, so one edge operator sums the couplings and each W acts once per atom. The two
orders of the geometric product differ by the sign of its antisymmetric couplings: with U⁺ the sum of the symmetric and
U⁻ that of the antisymmetric ones, the first two terms are (W1 + W2) U⁺ + (W1 - W2) U⁻.
"""

import torch
from torch import Tensor, nn

from cliffordstf.algebra.couplings import geometric_product_couplings, track_coupling
from cliffordstf.algebra.tracks import GRADES, SCALAR, STF2, VECTOR, Layout, Track, natural_track
from cliffordstf.kernels import EdgePath, EdgePlan, NodePath, NodePlan, edge_trilinear, node_bilinear
from cliffordstf.nn.attention import EdgeAttention
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.linear import merge, mlp


class EdgeEmbedding(nn.Module):
    """First layer of the networks behind the edge features, shared by all message layers.

    One hidden layer each for the grade-0, grade-1 and (if asked for) STF2 edge feature; every message layer owns the
    last matrix, which is the paper's output layer and per-layer linear map of the edge multivector in one.
    """

    def __init__(self, basis: int, channels: int, stf2: bool) -> None:
        super().__init__()
        self.count = 3 if stf2 else 2
        self.hidden = nn.Linear(basis, self.count * channels)

    def forward(self, basis: Tensor) -> Tensor:
        """(edges, basis) -> hidden features (edges, features, channels)."""
        return nn.functional.silu(self.hidden(basis)).unflatten(1, (self.count, -1))


class _Slots:
    """Collects the paths of an edge plan: where each one reads, which weight row it uses and where it writes."""

    def __init__(self, source: Layout, extra: Track | None) -> None:
        self.source, self.extra = source, extra
        self.rows: dict[str, int] = {}
        self.targets: dict[tuple[str, Track], int] = {}
        self.paths: list[EdgePath] = []
        self.size = 0

    def add(self, slot: str, row: str, a: Track, b: Track, c: Track, scale: float = 1.0, extra: bool = False) -> None:
        if (slot, c) not in self.targets:
            self.targets[slot, c] = self.size
            self.size += c.dims
        source = self.source.dims if extra else self.source.slice(a).start
        weight = self.rows.setdefault(row, len(self.rows))
        edge = b.degree**2
        self.paths.append(EdgePath(track_coupling(a, b, c), source, edge, self.targets[slot, c], weight, scale))

    def plan(self) -> EdgePlan:
        edge_dims = max(path.edge + path.coupling.b.dims for path in self.paths)
        source_dims = self.source.dims + (self.extra.dims if self.extra else 0)
        return EdgePlan(tuple(self.paths), source_dims, edge_dims, self.size, len(self.rows))


class DualTrackMessage(nn.Module):
    """Message and aggregation of one layer.

    Args:
        source: Tracks of the sender that may be non-zero.
        target: Tracks that the message may carry; `self.layout` says which of them it does.
        channels, basis, heads: Widths.
        edge_stf2: Whether the STF2 feature of the edge enters.
        cross: Whether S·v of the sender enters grade 1.
    """

    def __init__(
        self,
        source: Layout,
        target: Layout,
        channels: int,
        basis: int,
        heads: int,
        edge_stf2: bool,
        cross: bool,
    ) -> None:
        super().__init__()
        self.cross = cross and {VECTOR, STF2} <= set(source) and VECTOR in target
        slots = _Slots(source, VECTOR if self.cross else None)
        self._add_clifford(slots, source, target)
        self._add_tensors(slots, source, target, edge_stf2)
        self.plan = slots.plan()
        self.rows, self.targets = tuple(slots.rows), tuple(slots.targets.items())
        self.layout = Layout(tuple({track for _, track in slots.targets}))
        self._make_weights(channels, basis, heads)
        if self.cross:
            contraction = track_coupling(STF2, VECTOR, VECTOR)
            path = NodePath(contraction, source.slice(STF2).start, source.slice(VECTOR).start, 0)
            self.contraction = NodePlan((path,), source.dims, source.dims, VECTOR.dims)
        self.source = source

    def _add_clifford(self, slots: _Slots, source: Layout, target: Layout) -> None:
        signs = {(c.a, c.b, c.c): (c, sign) for c, sign in geometric_product_couplings()}
        for (a, b, c), (coupling, sign) in signs.items():
            if a not in source or c not in target or b not in (SCALAR, VECTOR):
                continue
            antisymmetric = (a.degree + b.degree - c.degree) % 2 == 1
            swapped = signs[b, a, c][1] * (-1 if antisymmetric else 1)
            slot = "plus" if swapped == sign else "minus"
            slots.add(slot, "alpha*edge0" if b == SCALAR else "alpha*edge1", a, b, coupling.c, sign)
        if SCALAR in target:
            slots.add("skip", "alpha", SCALAR, SCALAR, SCALAR)
        if self.cross:
            slots.add("cross", "alpha", VECTOR, SCALAR, VECTOR, extra=True)

    @staticmethod
    def _add_tensors(slots: _Slots, source: Layout, target: Layout, edge_stf2: bool) -> None:
        for track in (track for track in target if track.degree >= 2):
            lower = natural_track(track.degree - 1)
            if lower in source:
                slots.add("generate", "radial", lower, VECTOR, track)
            if track in source:
                slots.add("send", "radial", track, SCALAR, track)
        if edge_stf2 and STF2 in target:
            slots.add("edge", "edge2", SCALAR, STF2, STF2)
        elif edge_stf2 and VECTOR in source and VECTOR in target:
            # Without an stf2 track the edge's STF2 feature still reaches grade 1, by its contraction with the vector.
            slots.add("edge", "alpha*edge2", VECTOR, STF2, VECTOR)

    def _make_weights(self, channels: int, basis: int, heads: int) -> None:
        scale = channels**-0.5
        self.weights = nn.ParameterDict()
        for (slot, track), _ in self.targets:
            for name in ("left", "right") if slot in ("plus", "minus") else (slot,):
                key = f"{name}_{track.name}"
                if key not in self.weights:
                    self.weights[key] = nn.Parameter(torch.randn(channels, channels) * scale)
        features = sorted({row[-1] for row in self.rows if "edge" in row})
        self.edge_heads = nn.ModuleDict({feature: nn.Linear(channels, channels) for feature in features})
        self.attention = EdgeAttention(channels, heads, basis) if "alpha" in self.rows else None
        self.radial = mlp(basis, channels, channels) if "radial" in self.rows else None

    def edge_weights(
        self, scalars: Tensor, basis: Tensor, hidden: Tensor, envelope: Tensor, geometry: Geometry
    ) -> Tensor:
        """Weights of the plan's rows, (edges, rows, channels)."""
        alpha = self.attention(scalars, basis, geometry)[:, None] if self.attention is not None else None
        heads = {f: head(hidden[:, int(f)]) * envelope[:, None] for f, head in self.edge_heads.items()}
        columns = []
        for row in self.rows:
            if row == "alpha":
                assert alpha is not None
                columns.append(alpha.expand(-1, hidden.shape[2]))
            elif row == "radial":
                assert self.radial is not None
                columns.append(self.radial(basis) * envelope[:, None])
            else:
                head = heads[row[-1]]
                columns.append(head * alpha if row.startswith("alpha") and alpha is not None else head)
        return torch.stack(columns, dim=1)

    def forward(
        self,
        features: Tensor,
        directions: Tensor,
        basis: Tensor,
        hidden: Tensor,
        envelope: Tensor,
        geometry: Geometry,
    ) -> Tensor:
        """Aggregate messages.

        Args:
            features: (atoms, source components, channels).
            directions: STF tensors of the edge directions, degrees 0 … 2, (edges, 9).
            basis: Radial basis (edges, basis).
            hidden: Output of `EdgeEmbedding`, (edges, features, channels).
            envelope: (edges,).
            geometry: The edges.

        Returns:
            (atoms, components of `self.layout`, channels).
        """
        scalars = self.source.take(features, SCALAR)[:, 0]
        weights = self.edge_weights(scalars, basis, hidden, envelope, geometry)
        if self.cross:
            features = torch.cat([features, node_bilinear(self.contraction, features, features)], dim=1)
        edge_tensors = directions[:, : self.plan.edge_dims]
        sums = edge_trilinear(self.plan, features, weights, edge_tensors, geometry.senders, geometry.receivers)
        terms = [
            {track: sums.narrow(1, start, track.dims) @ self._matrix(slot, track)}
            for (slot, track), start in self.targets
        ]
        return merge(self.layout, *terms)

    def _matrix(self, slot: str, track: Track) -> Tensor:
        if slot in ("plus", "minus"):
            left, right = self.weights[f"left_{track.name}"], self.weights[f"right_{track.name}"]
            return left + right if slot == "plus" else left - right
        return self.weights[f"{slot}_{track.name}"]


def message_grades(source: Layout, max_grade: int) -> tuple[Track, ...]:
    """Grades that the geometric product of the sender with a scalar-plus-vector edge can reach."""
    present = {track.grade for track in source if track.grade is not None}
    reached = present | {grade + step for grade in present for step in (-1, 1)}
    return tuple(track for track in GRADES if track.grade in reached and (track.grade or 0) <= max_grade)
