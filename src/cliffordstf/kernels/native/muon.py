"""The Muon optimiser's update on the compiled kernels."""

from collections.abc import Sequence

import torch
from torch import Tensor

from cliffordstf.kernels.native.library import MuonArgs, MuonMatrices, library, threads_for


def can_update(matrices: Sequence[tuple[Tensor, Tensor, Tensor]]) -> bool:
    """Whether `update_matrices` takes these: contiguous, on the CPU and of one precision that has kernels."""
    tensors = [tensor for triple in matrices for tensor in triple]
    first = tensors[0]
    return library(first.dtype) is not None and all(
        tensor.dtype == first.dtype and tensor.device.type == "cpu" and tensor.is_contiguous() for tensor in tensors
    )


@torch.no_grad()
def update_matrices(
    matrices: Sequence[tuple[Tensor, Tensor, Tensor]], rate: float, momentum: float, decay: float
) -> None:
    """One step of Muon, in place, on all matrices at once.

    Args:
        matrices: Weights, their gradients and the moving averages of these, all of shape (rows, columns) or
            (count, rows, columns).
        rate: Learning rate.
        momentum: Of the moving averages.
        decay: Weights shrink by `rate` times this.
    """
    stacks = (MuonMatrices * len(matrices))()
    work = 0.0
    for place, (weights, gradient, average) in zip(stacks, matrices, strict=True):
        place.weights, place.gradient, place.momentum = weights.data_ptr(), gradient.data_ptr(), average.data_ptr()
        place.rows, place.columns = weights.shape[-2:]
        place.count = weights.numel() // max(1, place.rows * place.columns)
        work += 15.0 * weights.numel() * min(place.rows, place.columns)
    args = MuonArgs(len(matrices), stacks, rate, momentum, decay, threads_for(work))
    kernels = library(matrices[0][0].dtype)
    assert kernels is not None
    kernels.call("muon_update", args)
    # The kernel wrote behind PyTorch's back: what was made from the weights before is told apart by their version.
    torch.autograd.graph.increment_version(
        [tensor for weights, _, average in matrices for tensor in (weights, average)]
    )
