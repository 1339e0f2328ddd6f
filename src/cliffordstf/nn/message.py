"""The paper's dual-track message, rewritten so that no matrix over channels runs on edges.

The paper's message from j to i is, with α the attention weight, e the edge multivector and ρ a radial function,

  Clifford:  α [W1 GP(h_j, e) + W2 GP(e, h_j) + W_skip h_j⁽⁰⁾ + W_cross S_j·v_j]
  STF2:      ρ [W_gen STF2(v_j, r̂) + W_send S_j] + e⁽²⁾ W_edge s_j
  STF3:      ρ [W_gen STF3(S_j, r̂) + W_send T_j]

A matrix over channels commutes with every coupling. W_skip, W_cross and those of the STF messages act once per atom on
what the sender sends; W1 and W2, which stand behind the channel-wise product with e, act once per atom on the sum
that the
receiver gets. The two orders of the geometric product differ by the sign of its antisymmetric couplings: with U⁺ the
sum of the symmetric and U⁻ that of the antisymmetric ones, their terms are (W1 + W2) U⁺ + (W1 - W2) U⁻.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cliffordstf.algebra.couplings import geometric_product_couplings, track_coupling
from cliffordstf.algebra.tracks import GRADES, SCALAR, STF2, VECTOR, Layout, Track, natural_track
from cliffordstf.kernels import EdgePath, EdgePlan, NodePath, NodePlan, edge_trilinear, node_bilinear
from cliffordstf.nn.attention import EdgeAttention
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.linear import SILU_GAIN, dense, mlp


class EdgeEmbedding(nn.Module):
    """First layer of the networks behind the edge features, shared by all message layers.

    One hidden layer each for the grade-0, grade-1 and (if asked for) STF2 edge feature; every message layer owns the
    last matrix, which is the paper's output layer and per-layer linear map of the edge multivector in one.
    """

    def __init__(self, basis: int, channels: int, stf2: bool) -> None:
        super().__init__()
        self.count = 3 if stf2 else 2
        self.hidden = dense(basis, self.count * channels)

    def forward(self, basis: Tensor) -> Tensor:
        """(edges, basis) -> hidden features (edges, features, channels)."""
        return nn.functional.silu(self.hidden(basis)).unflatten(1, (self.count, -1))


@dataclass(frozen=True)
class _Sent:
    """A track that the sender multiplies by a matrix before it is sent.

    Attributes:
        name: Name of the matrix.
        track: Track of the sender, or None for the contraction S·v.
    """

    name: str
    track: Track | None


class _PlanBuilder:
    """Collects the paths of the edge plan: where each one reads, which weight row it uses and where it writes."""

    def __init__(self, grades: Layout) -> None:
        self.grades = grades
        self.source_dims = grades.dims
        self.sent: list[_Sent] = []
        self.rows: dict[str, int] = {}
        self.targets: dict[tuple[str, Track], int] = {}
        self.target_dims = 0
        self.paths: list[EdgePath] = []

    def product(self, slot: str, row: str, a: Track, b: Track, c: Track, sign: int) -> None:
        """A grade of the geometric product, read from the sender's features as they are."""
        self._path(slot, row, self.grades.slice(a).start, a, b, c, sign)

    def send(self, name: str, row: str, a: Track, b: Track, c: Track, contracted: bool = False) -> None:
        """A term whose matrix acts on the sender."""
        start = self.source_dims
        self.source_dims += a.dims
        self.sent.append(_Sent(f"{name}_{c.name}", None if contracted else a))
        self._path("direct", row, start, a, b, c, 1)

    def _path(self, slot: str, row: str, source: int, a: Track, b: Track, c: Track, sign: int) -> None:
        if (slot, c) not in self.targets:
            self.targets[slot, c] = self.target_dims
            self.target_dims += c.dims
        weight = self.rows.setdefault(row, len(self.rows))
        target = self.targets[slot, c]
        self.paths.append(EdgePath(track_coupling(a, b, c), source, b.degree**2, target, weight, float(sign)))

    def plan(self) -> EdgePlan:
        edge_dims = max(path.edge + path.coupling.b.dims for path in self.paths)
        return EdgePlan(tuple(self.paths), self.source_dims, edge_dims, self.target_dims, len(self.rows))


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
        self.source = source
        # The product with the edge multivector reads the sender's grades as they are, if any grade is wanted at all.
        wants_grades = any(track.grade is not None for track in target)
        self.grades = Layout(tuple(track for track in source if track.grade is not None and wants_grades))
        builder = _PlanBuilder(self.grades)
        self._add_clifford(builder, target, cross)
        self._add_tensors(builder, target, edge_stf2)
        self.plan = builder.plan()
        self.sent, self.rows = tuple(builder.sent), tuple(builder.rows)
        self.targets = tuple(builder.targets.items())
        self.layout = Layout(tuple({track for _, track in builder.targets}))
        self._make_weights(channels, basis, heads)
        if any(sent.track is None for sent in self.sent):
            path = NodePath(
                track_coupling(STF2, VECTOR, VECTOR), source.slice(STF2).start, source.slice(VECTOR).start, 0
            )
            self.contraction = NodePlan((path,), source.dims, source.dims, VECTOR.dims)

    def _add_clifford(self, builder: _PlanBuilder, target: Layout, cross: bool) -> None:
        signs = {(c.a, c.b, c.c): sign for c, sign in geometric_product_couplings()}
        for (a, b, c), sign in signs.items():
            if a in self.grades and b in (SCALAR, VECTOR) and c in target:
                antisymmetric = (a.degree + b.degree - c.degree) % 2 == 1
                swapped = signs[b, a, c] * (-1 if antisymmetric else 1)
                row = "alpha*edge0" if b == SCALAR else "alpha*edge1"
                builder.product("plus" if swapped == sign else "minus", row, a, b, c, sign)
        if SCALAR in target:
            builder.send("skip", "alpha", SCALAR, SCALAR, SCALAR)
        if cross and {VECTOR, STF2} <= set(self.source) and VECTOR in target:
            builder.send("cross", "alpha", VECTOR, SCALAR, VECTOR, contracted=True)

    def _add_tensors(self, builder: _PlanBuilder, target: Layout, edge_stf2: bool) -> None:
        for track in (track for track in target if track.degree >= 2):
            lower = natural_track(track.degree - 1)
            if lower in self.source:
                builder.send("generate", "radial", lower, VECTOR, track)
            if track in self.source:
                builder.send("send", "radial", track, SCALAR, track)
        if edge_stf2 and STF2 in target:
            builder.send("edge", "edge2", SCALAR, STF2, STF2)
        elif edge_stf2 and VECTOR in self.source and VECTOR in target:
            # Without an stf2 track the edge's STF2 feature still reaches grade 1, by its contraction with the vector.
            builder.send("edge", "alpha*edge2", VECTOR, STF2, VECTOR)

    def _make_weights(self, channels: int, basis: int, heads: int) -> None:
        products = {track.name for (slot, track), _ in self.targets if slot != "direct"}
        names = [f"{side}_{name}" for name in sorted(products) for side in ("left", "right")]
        names += [sent.name for sent in self.sent]
        self.weights = nn.ParameterDict(
            {name: nn.Parameter(torch.randn(channels, channels) / channels**0.5) for name in names}
        )
        features = sorted({row[-1] for row in self.rows if "edge" in row})
        self.edge_heads = nn.ModuleDict({f: dense(channels, channels, gain=SILU_GAIN) for f in features})
        attends = any(row.startswith("alpha") for row in self.rows)
        self.attention = EdgeAttention(channels, heads, basis) if attends else None
        self.radial = mlp(basis, channels, channels) if "radial" in self.rows else None

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
        weights = self._edge_weights(scalars, basis, hidden, envelope, geometry)
        sums = edge_trilinear(
            self.plan,
            self._sent_features(features),
            weights,
            directions[:, : self.plan.edge_dims],
            geometry.edges,
        )
        terms = []
        parts = sums.split([track.dims for (_, track), _ in self.targets], dim=1)
        for ((slot, track), _), part in zip(self.targets, parts, strict=True):
            terms.append((track, part if slot == "direct" else part @ self._product_matrix(slot, track)))
        return _merge(self.layout, terms)

    def _sent_features(self, features: Tensor) -> Tensor:
        """What every atom sends: its grades, then the tracks that have been multiplied by a matrix."""
        tracks = self.source.split(features)
        parts = [tracks[track] for track in self.grades]
        for sent in self.sent:
            track = sent.track
            part = node_bilinear(self.contraction, features, features) if track is None else tracks[track]
            parts.append(part @ self.weights[sent.name])
        return torch.cat(parts, dim=1)

    def _edge_weights(
        self, scalars: Tensor, basis: Tensor, hidden: Tensor, envelope: Tensor, geometry: Geometry
    ) -> Tensor:
        """Weights of the plan's rows, (edges, rows, channels)."""
        columns = {f"edge{f}": head(hidden[:, int(f)]) * envelope[:, None] for f, head in self.edge_heads.items()}
        if self.radial is not None:
            columns["radial"] = self.radial(basis) * envelope[:, None]
        if self.attention is not None:
            alpha = self.attention(scalars, basis, geometry)[:, None]
            for row in self.rows:
                if row.startswith("alpha*"):
                    columns[row] = alpha * columns[row.removeprefix("alpha*")]
            columns["alpha"] = alpha.expand(-1, hidden.shape[2])
        return torch.stack([columns[row] for row in self.rows], dim=1)

    def _product_matrix(self, slot: str, track: Track) -> Tensor:
        left, right = self.weights[f"left_{track.name}"], self.weights[f"right_{track.name}"]
        return left + right if slot == "plus" else left - right


def _merge(layout: Layout, terms: list[tuple[Track, Tensor]]) -> Tensor:
    """Sum the terms of each track; every track of the layout occurs in at least one."""
    parts = []
    for track in layout:
        present = [part for other, part in terms if other == track]
        parts.append(sum(present[1:], start=present[0]))
    return torch.cat(parts, dim=1)


def message_grades(source: Layout, max_grade: int) -> tuple[Track, ...]:
    """Grades that the geometric product of the sender with a scalar-plus-vector edge can reach."""
    present = {track.grade for track in source if track.grade is not None}
    reached = present | {grade + step for grade in present for step in (-1, 1)}
    return tuple(track for track in GRADES if track.grade in reached and (track.grade or 0) <= max_grade)
