"""From pairs to their two edges and back: what depends on the distance alone is computed once per pair."""

from typing import Any

import torch
from torch import Tensor

from cliffordstf.graph import EdgeIndex


def to_edges(values: Tensor, edges: EdgeIndex) -> Tensor:
    """Give both edges of a pair its values, (pairs, …) -> (edges, …).

    Its gradient is the sum over the two edges, a gather; that of an indexing is a scatter, which takes several times as
    long.
    """
    if torch.compiler.is_compiling() or not values.requires_grad:
        return values.index_select(0, edges.pair)
    result: Tensor = _ToEdges.apply(values, edges.pair, edges.pair_edges)  # type: ignore[no-untyped-call]
    return result


class _ToEdges(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, pair: Tensor, pair_edges: Tensor) -> Tensor:
        ctx.save_for_backward(pair, pair_edges)
        return values.index_select(0, pair)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _ToPairs.apply(gradients[0], *ctx.saved_tensors), None, None  # type: ignore[no-untyped-call]


class _ToPairs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, pair: Tensor, pair_edges: Tensor) -> Tensor:
        ctx.save_for_backward(pair, pair_edges)
        first, second = pair_edges.unbind(1)
        return values.index_select(0, first).add_(values.index_select(0, second))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _ToEdges.apply(gradients[0], *ctx.saved_tensors), None, None  # type: ignore[no-untyped-call]
