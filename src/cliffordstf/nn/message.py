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

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from cliffordstf.algebra.couplings import geometric_product_couplings, track_coupling
from cliffordstf.algebra.tracks import GRADES, SCALAR, STF2, VECTOR, Layout, Track, natural_track
from cliffordstf.kernels import NodePath, NodePlan, edge_factored, node_bilinear, track_linear
from cliffordstf.kernels.operator import is_traced
from cliffordstf.nn.attention import EdgeAttention
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.linear import SILU_GAIN, dense, mlp, restrict
from cliffordstf.nn.message_plan import ATTENDED, MessagePlanBuilder

VECTOR_WIDTH = 16
"""Channels go through the edge operator in whole vectors. Padding what is made here anyway, matrices and stacks, spares
the operator a copy of everything."""


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
        """(pairs, basis) -> hidden features (pairs, features, channels)."""
        return nn.functional.silu(self.hidden(basis)).unflatten(1, (self.count, -1))


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
        builder = MessagePlanBuilder(self.grades)
        self._add_clifford(builder, target, cross)
        self._add_tensors(builder, target, edge_stf2)
        self.plan, self.rows = builder.plan(), tuple(builder.rows)
        self.layout, self.direct, self.direct_slices = builder.layout(), builder.direct(), builder.direct_slices()
        self.sent, self.contracted, self.products = builder.sent, builder.contracted, builder.products()
        self.sending, self.receiving = builder.sending(source), builder.receiving()
        contraction = track_coupling(STF2, VECTOR, VECTOR)
        self.contraction = (
            NodePlan(
                (NodePath(contraction, source.slice(STF2).start, source.slice(VECTOR).start, 0),),
                source.dims,
                source.dims,
                VECTOR.dims,
            )
            if self.contracted
            else None
        )
        self._make_weights(channels, basis, heads)

    def _add_clifford(self, builder: MessagePlanBuilder, target: Layout, cross: bool) -> None:
        signs = {(c.a, c.b, c.c): sign for c, sign in geometric_product_couplings()}
        for (a, b, c), sign in signs.items():
            if a in self.grades and b in (SCALAR, VECTOR) and c in target:
                antisymmetric = (a.degree + b.degree - c.degree) % 2 == 1
                swapped = signs[b, a, c] * (-1 if antisymmetric else 1)
                row = "alpha*edge0" if b == SCALAR else "alpha*edge1"
                builder.product("plus" if swapped == sign else "minus", row, a, b, c, sign)
        if SCALAR in target:
            builder.send("skip", "alpha*one", SCALAR, SCALAR, SCALAR)
        if cross and {VECTOR, STF2} <= set(self.source) and VECTOR in target:
            builder.send_contraction("cross", "alpha*one", VECTOR, SCALAR, VECTOR)

    def _add_tensors(self, builder: MessagePlanBuilder, target: Layout, edge_stf2: bool) -> None:
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
        products = {track.name for _, track in self.products}
        names = [f"{side}_{name}" for name in sorted(products) for side in ("left", "right")]
        names += [*self.sent, *self.contracted]
        self.weights = nn.ParameterDict(
            {name: nn.Parameter(torch.randn(channels, channels) / channels**0.5) for name in names}
        )
        features = sorted({row[-1] for row in self.rows if "edge" in row})
        self.edge_heads = nn.ModuleDict({f: dense(channels, channels, gain=SILU_GAIN) for f in features})
        attends = any(row.startswith(ATTENDED) for row in self.rows)
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
            basis: Radial basis (pairs, basis).
            hidden: Output of `EdgeEmbedding`, (pairs, features, channels).
            envelope: (pairs,).
            geometry: The edges.

        Returns:
            (atoms, components of `self.layout`, channels).
        """
        scalars = self.source.take(features, SCALAR)[:, 0]
        padding = -features.shape[2] % VECTOR_WIDTH
        sums = edge_factored(
            self.plan,
            self._sent_features(features, padding),
            self._weights(basis, hidden, envelope, padding),
            self._attention(scalars, basis, geometry),
            directions[:, : self.plan.edge_dims],
            geometry.edges,
        )
        return self._received(sums, padding)

    def _sent_features(self, features: Tensor, padding: int) -> Tensor:
        """What every atom sends: its grades, then the tracks that have been multiplied by a matrix."""
        terms = [(features, pad(self._stacked(list(self.sent)), (0, padding)))]
        if self.contraction is not None:
            contracted = node_bilinear(self.contraction, features, features)
            terms.append((contracted, pad(self._stacked(list(self.contracted)), (0, padding))))
        sent = track_linear(self.sending, terms)
        if not self.grades.dims:
            return sent
        return torch.cat([pad(features[:, : self.grades.dims], (0, padding)), sent], dim=1)

    def _received(self, sums: Tensor, padding: int) -> Tensor:
        """Multiply the products by their matrices, (atoms, components of the plan, padded) -> `self.layout`."""
        channels = sums.shape[2] - padding
        parts = [sums[:, part, :channels] for part in self.direct_slices]
        if not self.products:
            return torch.cat(parts, dim=1)
        result = track_linear(self.receiving, [(sums, pad(self._product_matrices(), (0, 0, 0, padding)))])
        return result + restrict(torch.cat(parts, dim=1), self.direct, self.layout) if parts else result

    def _weights(self, basis: Tensor, hidden: Tensor, envelope: Tensor, padding: int) -> Tensor:
        """Functions of the distance that the plan's rows take, (pairs, rows, padded channels)."""
        columns = {f"edge{f}": head(hidden[:, int(f)]) for f, head in self.edge_heads.items()}
        if self.radial is not None:
            columns["radial"] = self.radial(basis)
        names = [row.removeprefix(ATTENDED) for row in self.rows]
        if not torch.is_grad_enabled() and not is_traced([basis]):
            return _placed(names, columns, envelope, hidden.shape[2], padding)
        columns = {row: column * envelope[:, None] for row, column in columns.items()}
        columns["one"] = torch.ones_like(hidden[:, 0])
        return pad(torch.stack([columns[name] for name in names], dim=1), (0, padding))

    def _attention(self, scalars: Tensor, basis: Tensor, geometry: Geometry) -> Tensor:
        """What multiplies the plan's rows on each edge, (edges, rows): attention, or one."""
        if self.attention is None:
            return scalars.new_ones(len(geometry.edges.senders), len(self.rows))
        alpha = self.attention(scalars, basis, geometry)
        ones = torch.ones_like(alpha)
        return torch.stack([alpha if row.startswith(ATTENDED) else ones for row in self.rows], dim=1)

    def _stacked(self, names: list[str]) -> Tensor:
        return torch.stack([self.weights[name] for name in names])

    def _product_matrices(self) -> Tensor:
        """Of the symmetric and of the antisymmetric products, (products, channels, channels)."""
        left = self._stacked([f"left_{track.name}" for _, track in self.products])
        right = self._stacked([f"right_{track.name}" for _, track in self.products])
        signs = left.new_tensor([1.0 if slot == "plus" else -1.0 for slot, _ in self.products])
        return left + right * signs[:, None, None]


def _placed(names: list[str], columns: dict[str, Tensor], envelope: Tensor, channels: int, padding: int) -> Tensor:
    """Columns (pairs, channels) times the envelope side by side, ones for the rest, without the copies of autograd."""
    result = envelope.new_empty(len(envelope), len(names), channels + padding)
    result[:, :, channels:] = 0
    for name, place in zip(names, result[:, :, :channels].unbind(1), strict=True):
        if name in columns:
            torch.mul(columns[name], envelope[:, None], out=place)
        else:
            place.fill_(1)
    return result


def message_grades(source: Layout, max_grade: int) -> tuple[Track, ...]:
    """Grades that the geometric product of the sender with a scalar-plus-vector edge can reach."""
    present = {track.grade for track in source if track.grade is not None}
    reached = present | {grade + step for grade in present for step in (-1, 1)}
    return tuple(track for track in GRADES if track.grade in reached and (track.grade or 0) <= max_grade)
