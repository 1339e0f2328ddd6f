"""The paper's invariant attention over the neighbours of each atom."""

import torch
from torch import Tensor, nn

from cliffordstf.kernels import attention_weights, can_weigh
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.linear import dense, mlp
from cliffordstf.nn.pairs import to_edges


def softmax_over_neighbours(logits: Tensor, geometry: Geometry) -> Tensor:
    """Softmax of (edges, heads) over the incoming edges of each receiver."""
    index = geometry.edges.receivers[:, None].expand_as(logits)
    largest = logits.detach().new_full((geometry.atoms, logits.shape[1]), -torch.inf)
    largest = largest.scatter_reduce(0, index, logits.detach(), "amax")
    exponentials = (logits - largest.index_select(0, geometry.edges.receivers)).exp()
    return exponentials / geometry.sum_over_edges(exponentials).index_select(0, geometry.edges.receivers)


class EdgeAttention(nn.Module):
    """One weight per edge: multi-head dot products of scalars plus a radial bias, softmax, mean over heads.

    Queries and keys are matrices over atoms; on edges only their products and the radial bias are left. No envelope is
    applied: like the paper's, these weights jump when an atom crosses the cutoff.
    """

    def __init__(self, channels: int, heads: int, basis: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = dense(channels, channels, bias=False)
        self.key = dense(channels, channels, bias=False)
        # A constant added to all logits drops out of the softmax, so the last layer has no bias.
        self.bias = mlp(basis, channels, heads, final_bias=False)

    def forward(self, scalars: Tensor, basis: Tensor, geometry: Geometry) -> Tensor:
        """Scalars (atoms, channels) and radial basis (pairs, size) -> weights (edges,)."""
        queries, keys, bias = self.query(scalars), self.key(scalars), self.bias(basis)
        if can_weigh([queries, keys, bias]):
            return attention_weights(queries, keys, bias, geometry.edges)
        queries = queries.index_select(0, geometry.edges.receivers)
        keys = keys.index_select(0, geometry.edges.senders)
        width = queries.shape[1] // self.heads
        # A product with blocks of ones: sums over a few neighbouring numbers are slow as sums.
        blocks = torch.eye(self.heads, dtype=queries.dtype, device=queries.device).repeat_interleave(width, dim=0)
        logits = (queries * keys) @ (blocks / width**0.5) + to_edges(bias, geometry.edges)
        return softmax_over_neighbours(logits, geometry).mean(dim=1)
