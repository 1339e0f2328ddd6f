"""The operators in plain PyTorch: the oracle for every other implementation, and the one that runs everywhere.

Differentiable to any order through autograd. Messages are materialised, so memory grows with the number of edges.
Operands are split once and results concatenated once: the gradient of a slice would fill a whole tensor with zeros.
"""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from cliffordstf.algebra.stf import stf_powers
from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels.plan import AS_IT_IS, EdgePlan, GatePlan, LinearPlan, NodePlan


def edge_trilinear(plan: EdgePlan, features: Tensor, weights: Tensor, edge_tensors: Tensor, edges: EdgeIndex) -> Tensor:
    """See `cliffordstf.kernels.ops.edge_trilinear`."""
    # index_select, not indexing: its gradient adds up in a fixed order.
    sent = _split(features.index_select(0, edges.senders), ((p.source, p.coupling.a.dims) for p in plan.paths))
    local = _split(edge_tensors, ((p.edge, p.coupling.b.dims) for p in plan.paths))
    rows = weights.unbind(1)
    messages: dict[int, Tensor] = {}
    for path, table in zip(plan.paths, plan.tables(features.dtype, features.device), strict=True):
        operand, edge = sent[path.source], local[path.edge]
        weighted = operand * rows[path.weight][:, None]
        if path.coupling.b.dims == 1:
            message = weighted * (edge[:, :, None] * path.scale)
        elif path.coupling.a.dims == 1:
            message = (edge @ table[0])[:, :, None] * weighted
        else:
            message = torch.einsum("eb,abc->eca", edge, table) @ weighted
        _accumulate(messages, path.target, message)
    shape = (features.shape[0], plan.target_dims, features.shape[2])
    return features.new_zeros(shape).index_add(0, edges.receivers, _join(messages))


def edge_factored(
    plan: EdgePlan, features: Tensor, weights: Tensor, factors: Tensor, edge_tensors: Tensor, edges: EdgeIndex
) -> Tensor:
    """See `cliffordstf.kernels.ops.edge_factored`."""
    on_edges = weights.index_select(0, edges.pair) * factors[:, :, None]
    return edge_trilinear(plan, features, on_edges, edge_tensors, edges)


def edge_convolution(
    plan: EdgePlan, features: Tensor, radial: Tensor, mixing: Tensor, directions: Tensor, edges: EdgeIndex
) -> Tensor:
    """See `cliffordstf.kernels.ops.edge_convolution`."""
    return edge_trilinear(plan, features, *expanded(plan, radial, mixing, directions, edges), edges)


def expanded(
    plan: EdgePlan, radial: Tensor, mixing: Tensor, directions: Tensor, edges: EdgeIndex
) -> tuple[Tensor, Tensor]:
    """Weights (edges, rows, channels) and direction tensors (edges, components) of every edge, from those of pairs."""
    weights = (radial @ mixing.flatten(1)).unflatten(1, mixing.shape[1:])
    signs = torch.where(edges.turned[:, None] > 0, -1.0, 1.0).to(directions.dtype)
    lmax = math.isqrt(plan.edge_dims) - 1
    tensors, _ = stf_powers(directions.index_select(0, edges.pair) * signs, lmax, unit=True)
    return weights.index_select(0, edges.pair), tensors


def track_linear(plan: LinearPlan, terms: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """See `cliffordstf.kernels.ops.track_linear`."""
    results: dict[int, Tensor] = {}
    for term, (features, matrices) in zip(plan.terms, terms, strict=True):
        parts = _split(features, ((start, dims) for start, _, dims, _ in term.tracks))
        for start, target, _, matrix in term.tracks:
            part = parts[start]
            product = part * plan.scale if matrix == AS_IT_IS else part @ (matrices[matrix] * plan.scale)
            _accumulate(results, target, product)
    atoms, channels = terms[0][0].shape[0], terms[0][1].shape[2]
    position = 0
    for target in sorted(results):
        if target > position:
            results[position] = terms[0][0].new_zeros(atoms, target - position, channels)
        position = target + results[target].shape[1]
    if position < plan.target_dims:
        results[position] = terms[0][0].new_zeros(atoms, plan.target_dims - position, channels)
    return _join(results)


def node_bilinear(
    plan: NodePlan, left: Tensor, right: Tensor, weights: Tensor | None = None, groups: Tensor | None = None
) -> Tensor:
    """See `cliffordstf.kernels.ops.node_bilinear`."""
    lefts = _split(left, ((p.left, p.coupling.a.dims) for p in plan.paths))
    rights = _split(right, ((p.right, p.coupling.b.dims) for p in plan.paths))
    if weights is not None and weights.ndim == 3:
        weights = weights.index_select(0, groups) if groups is not None else weights[0]
    # (rows, channels), or (atoms, rows, channels) with a component axis put between.
    rows = () if weights is None else weights.unbind(-2) if weights.ndim == 2 else weights[:, :, None].unbind(1)
    outer_products: dict[tuple[int, int], Tensor] = {}
    results: dict[int, Tensor] = {}
    for path, table in zip(plan.paths, plan.tables(left.dtype, left.device), strict=True):
        key = (path.left, path.right)
        if key not in outer_products:
            outer_products[key] = (lefts[path.left][:, :, None] * rights[path.right][:, None]).flatten(1, 2)
        term = table.flatten(0, 1).T @ outer_products[key]
        _accumulate(results, path.target, term * rows[path.weight] if rows else term)
    return _join(results)


def scalar_gate(plan: GatePlan, features: Tensor, logits: Tensor, bias: Tensor) -> Tensor:
    """See `cliffordstf.kernels.ops.scalar_gate`."""
    gates = torch.sigmoid(logits + bias) * plan.sigmoid_gain
    tracks = _split(features, [(0, 1), *plan.tracks])
    parts = [torch.nn.functional.silu(tracks[0]) * plan.silu_gain]
    for gate, (start, _) in zip(gates.unbind(1), plan.tracks, strict=True):
        parts.append(tracks[start] * gate[:, None])
    return torch.cat(parts, dim=1)


def _split(tensor: Tensor, pieces: Iterable[tuple[int, int]]) -> dict[int, Tensor]:
    """Pieces (start, length) of axis 1, by start; what lies between them is split off and left alone."""
    wanted = sorted(set(pieces))
    sizes, starts, position = [], [], 0
    for start, length in wanted:
        if start > position:
            sizes.append(start - position)
            starts.append(-1)
        sizes.append(length)
        starts.append(start)
        position = start + length
    if position < tensor.shape[1]:
        sizes.append(tensor.shape[1] - position)
        starts.append(-1)
    return {start: part for start, part in zip(starts, tensor.split(sizes, dim=1), strict=True) if start >= 0}


def _accumulate(sums: dict[int, Tensor], target: int, term: Tensor) -> None:
    sums[target] = sums[target] + term if target in sums else term


def _join(parts: dict[int, Tensor]) -> Tensor:
    """Concatenate along axis 1 in the order of the targets, which tile it without gaps."""
    return torch.cat([parts[target] for target in sorted(parts)], dim=1)
