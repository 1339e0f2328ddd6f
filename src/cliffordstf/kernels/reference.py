"""The operators in plain PyTorch: the oracle for every other implementation, and the one that runs everywhere.

Differentiable to any order through autograd. Messages are materialised, so memory grows with the number of edges.
Operands are split once and results concatenated once: the gradient of a slice would fill a whole tensor with zeros.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from cliffordstf.kernels.plan import EdgePlan, NodePlan


def edge_trilinear(
    plan: EdgePlan, features: Tensor, weights: Tensor, edge_tensors: Tensor, senders: Tensor, receivers: Tensor
) -> Tensor:
    """Sum over neighbours of node features coupled to edge tensors.

    Args:
        plan: What is summed.
        features: (atoms, plan.source_dims, channels).
        weights: (edges, plan.weight_rows, channels).
        edge_tensors: (edges, plan.edge_dims).
        senders, receivers: int64 (edges,).

    Returns:
        (atoms, plan.target_dims, channels).
    """
    # index_select, not indexing: its gradient adds up in a fixed order.
    sent = _split(features.index_select(0, senders), ((p.source, p.coupling.a.dims) for p in plan.paths))
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
    return features.new_zeros(shape).index_add(0, receivers, _join(messages))


def node_bilinear(plan: NodePlan, left: Tensor, right: Tensor, weights: Tensor | None = None) -> Tensor:
    """Channel-wise product of two node features through the coupling table.

    Args:
        plan: What is summed.
        left: (atoms, plan.left_dims, channels).
        right: (atoms, plan.right_dims, channels).
        weights: (plan.weight_rows, channels), or None for a plan without weights.

    Returns:
        (atoms, plan.target_dims, channels).
    """
    lefts = _split(left, ((p.left, p.coupling.a.dims) for p in plan.paths))
    rights = _split(right, ((p.right, p.coupling.b.dims) for p in plan.paths))
    rows = weights.unbind(0) if weights is not None else ()
    outer_products: dict[tuple[int, int], Tensor] = {}
    results: dict[int, Tensor] = {}
    for path, table in zip(plan.paths, plan.tables(left.dtype, left.device), strict=True):
        key = (path.left, path.right)
        if key not in outer_products:
            outer_products[key] = (lefts[path.left][:, :, None] * rights[path.right][:, None]).flatten(1, 2)
        term = table.flatten(0, 1).T @ outer_products[key]
        _accumulate(results, path.target, term * rows[path.weight] if rows else term)
    return _join(results)


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
