"""The operators in plain PyTorch: the oracle for every other implementation, and the one that runs everywhere.

Differentiable to any order through autograd. Messages are materialised, so memory grows with the number of edges.
"""

from collections import defaultdict

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
    sent = features.index_select(0, senders)
    parts: dict[int, list[Tensor]] = defaultdict(list)
    for path, table in zip(plan.paths, plan.tables(features.dtype, features.device), strict=True):
        coupling = path.coupling
        local = edge_tensors.narrow(1, path.edge, coupling.b.dims)
        operand = sent.narrow(1, path.source, coupling.a.dims)
        if coupling.b.dims == 1:
            message = operand * local[:, :, None] * path.scale
        else:
            message = torch.einsum("eb,abc->eca", local, table) @ operand
        parts[path.target].append(message * weights[:, path.weight, None, :])
    result = features.new_zeros(features.shape[0], plan.target_dims, features.shape[2])
    for target, messages in parts.items():
        total = torch.stack(messages).sum(dim=0) if len(messages) > 1 else messages[0]
        summed = features.new_zeros(features.shape[0], total.shape[1], features.shape[2])
        result[:, target : target + total.shape[1]] = summed.index_add(0, receivers, total)
    return result


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
    parts: dict[int, list[Tensor]] = defaultdict(list)
    outer_products: dict[tuple[int, int], Tensor] = {}
    for path, table in zip(plan.paths, plan.tables(left.dtype, left.device), strict=True):
        coupling = path.coupling
        key = (path.left, path.right)
        if key not in outer_products:
            x = left.narrow(1, path.left, coupling.a.dims)
            y = right.narrow(1, path.right, coupling.b.dims)
            outer_products[key] = (x[:, :, None] * y[:, None]).flatten(1, 2)
        term = table.flatten(0, 1).T @ outer_products[key]
        parts[path.target].append(term if weights is None else term * weights[path.weight])
    result = left.new_zeros(left.shape[0], plan.target_dims, left.shape[2])
    for target, terms in parts.items():
        total = torch.stack(terms).sum(dim=0) if len(terms) > 1 else terms[0]
        result[:, target : target + total.shape[1]] = total
    return result
