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

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu

from cliffordstf.algebra.couplings import geometric_product_couplings, track_coupling
from cliffordstf.algebra.tracks import GRADES, SCALAR, STF2, VECTOR, Layout, Track, natural_track
from cliffordstf.kernels import NodePath, NodePlan, edge_factored, node_bilinear, track_linear
from cliffordstf.nn.attention import EdgeAttention
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.linear import SILU_GAIN, dense, mlp, stacked, whole_vectors, widen
from cliffordstf.nn.message_plan import ATTENDED, EDGE, RADIAL, MessagePlanBuilder, weighting_plan


class EdgeEmbedding(nn.Module):
    """First layer of the networks behind the edge features, shared by all message layers.

    One hidden layer each for the grade-0, grade-1 and (if asked for) STF2 edge feature; every message layer owns the
    last matrix, which is the paper's output layer and per-layer linear map of the edge multivector in one.
    """

    def __init__(self, basis: int, channels: int, stf2: bool) -> None:
        super().__init__()
        self.count = 3 if stf2 else 2
        self.hidden = dense(basis, self.count * channels)

    def forward(self, basis: Tensor, envelope: Tensor) -> Tensor:
        """Basis (pairs, basis) and envelope (pairs,) -> hidden features times envelope, (pairs, features, channels).

        Channels are rounded up to whole vectors by zeros.
        """
        weight, bias = (values.unflatten(0, (self.count, -1)) for values in (self.hidden.weight, self.hidden.bias))
        width = whole_vectors(weight.shape[1])
        weight, bias = widen(weight, width, weight.shape[2]), widen(bias, self.count, width)
        hidden = silu(linear(basis, weight.flatten(0, 1), bias.flatten()))
        return (hidden * envelope[:, None]).unflatten(1, (self.count, -1))


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
        self.layout = builder.layout()
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
        features = [row[-1] for row in self.rows if EDGE in row]
        self.edge_heads = nn.ModuleDict({f: dense(channels, channels, gain=SILU_GAIN) for f in sorted(set(features))})
        attends = any(row.startswith(ATTENDED) for row in self.rows)
        self.attention = EdgeAttention(channels, heads, basis) if attends else None
        self.radial = mlp(basis, channels, channels) if RADIAL in self.rows else None
        self.features, self.channels = features, channels

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
            features: (atoms, source components, channels), possibly wider, by channels that are zero.
            directions: STF tensors of the edge directions, degrees 0 … 2, (edges, 9).
            basis: Radial basis (pairs, basis).
            hidden: Output of `EdgeEmbedding`, (pairs, features, channels).
            envelope: (pairs,).
            geometry: The edges.

        Returns:
            (atoms, components of `self.layout`, channels), as wide as the features.
        """
        width = features.shape[2]
        sums = edge_factored(
            self.plan,
            self._sent_features(features),
            self._weights(basis, hidden, envelope, width),
            self._attention(self.source.take(features, SCALAR)[:, 0, : self.channels], basis, geometry),
            directions[:, : self.plan.edge_dims],
            geometry.edges,
        )
        return track_linear(self.receiving, [(sums, self._product_matrices(width))])

    def _sent_features(self, features: Tensor) -> Tensor:
        """What every atom sends: its grades, then the tracks that have been multiplied by a matrix."""
        width = features.shape[2]
        terms = [(features, self._stacked(self.sent, width))]
        if self.contraction is not None:
            contracted = node_bilinear(self.contraction, features, features)
            terms.append((contracted, self._stacked(self.contracted, width)))
        return track_linear(self.sending, terms)

    def _weights(self, basis: Tensor, hidden: Tensor, envelope: Tensor, width: int) -> Tensor:
        """Functions of the distance that the plan's rows take, (pairs, rows, width)."""
        factors = envelope[:, None, None]
        heads = [cast("nn.Linear", self.edge_heads[feature]) for feature in self.features]
        terms, biases = [], []
        if heads:
            matrices, bias = stacked(heads, hidden.shape[2], width)
            terms.append((hidden, matrices))
            biases.append(bias)
        if self.radial is not None:
            first, head = cast("nn.Linear", self.radial[0]), cast("nn.Linear", self.radial[2])
            inner = whole_vectors(self.channels)
            weight, start = widen(first.weight, inner, first.in_features), widen(first.bias[None], 1, inner)[0]
            matrices, bias = stacked([head], inner, width)
            terms.append((silu(linear(basis, weight, start))[:, None] * factors, matrices))
            biases.append(bias)
        made = sum(len(bias) for bias in biases)
        if made:
            terms.append((factors, torch.cat(biases)))
        if len(self.rows) > made:
            terms.append((torch.ones_like(factors), factors.new_ones(len(self.rows) - made, 1, width)))
        return track_linear(weighting_plan(self.rows, hidden.shape[1]), terms)

    def _attention(self, scalars: Tensor, basis: Tensor, geometry: Geometry) -> Tensor:
        """What multiplies the plan's rows on each edge, (edges, rows): attention, or one."""
        if self.attention is None:
            return scalars.new_ones(geometry.edges.senders.shape[0], len(self.rows))
        alpha = self.attention(scalars, basis, geometry)
        ones = torch.ones_like(alpha)
        return torch.stack([alpha if row.startswith(ATTENDED) else ones for row in self.rows], dim=1)

    def _stacked(self, names: Iterable[str], width: int) -> Tensor:
        matrices = [self.weights[name] for name in names]
        if not matrices:
            return next(self.parameters()).new_empty(0, width, width)
        return widen(torch.stack(matrices), width, width)

    def _product_matrices(self, width: int) -> Tensor:
        """Of the symmetric and of the antisymmetric products, (products, width, width)."""
        left = self._stacked([f"left_{track.name}" for _, track in self.products], width)
        right = self._stacked([f"right_{track.name}" for _, track in self.products], width)
        signs = left.new_tensor([1.0 if slot == "plus" else -1.0 for slot, _ in self.products])
        return left + right * signs[:, None, None]


def message_grades(source: Layout, max_grade: int) -> tuple[Track, ...]:
    """Grades that the geometric product of the sender with a scalar-plus-vector edge can reach."""
    present = {track.grade for track in source if track.grade is not None}
    reached = present | {grade + step for grade in present for step in (-1, 1)}
    return tuple(track for track in GRADES if track.grade in reached and (track.grade or 0) <= max_grade)
