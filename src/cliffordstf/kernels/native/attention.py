"""Attention weights on the compiled kernels, where nobody differentiates them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels.native.library import AttentionArgs, library, threads_for
from cliffordstf.kernels.operator import is_traced


def can_weigh(tensors: Sequence[Tensor]) -> bool:
    """Whether `attention_weights` may be used: numbers on the CPU that nobody differentiates or traces."""
    first = tensors[0]
    return (
        first.device.type == "cpu"
        and library(first.dtype) is not None
        and not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))
        and not is_traced(tensors)
    )


def attention_weights(queries: Tensor, keys: Tensor, bias: Tensor, edges: EdgeIndex) -> Tensor:
    """Mean over heads of the softmax over neighbours, (edges,).

    Args:
        queries, keys: (atoms, channels), the heads side by side.
        bias: Added to the logits of both edges of a pair, (pairs, heads).
        edges: Directed edges.
    """
    kernels = library(queries.dtype)
    assert kernels is not None
    queries, keys, bias = (tensor.detach().contiguous() for tensor in (queries, keys, bias))
    out = queries.new_empty(len(edges.senders))
    args = AttentionArgs()
    args.atoms, args.channels, args.heads = *queries.shape, bias.shape[1]
    args.row_pointers, args.neighbours = edges.row_pointers.data_ptr(), edges.senders.data_ptr()
    args.pair, args.out = edges.pair.data_ptr(), out.data_ptr()
    args.queries, args.keys, args.bias = queries.data_ptr(), keys.data_ptr(), bias.data_ptr()
    args.threads = threads_for(len(out) * queries.shape[1])
    kernels.call("attention_forward", args)
    return out
