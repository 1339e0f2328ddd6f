"""Lengths and directions of vectors on the compiled kernels, for inference."""

from ctypes import c_void_p

import torch
from torch import Tensor

from cliffordstf.kernels.native.library import Call, PairArgs, library, threads_for


class PreparedPairs:
    """Lengths and unit vectors, and the gradients with respect to the vectors.

    Args:
        dtype: Of all tensors.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        kernels = library(dtype)
        assert kernels is not None
        self._kernels = kernels

    def prepare_forward(self, vectors: Tensor) -> tuple[Call, tuple[Tensor, Tensor]]:
        """The kernel on vectors (pairs, 3), and where distances (pairs,) and directions (pairs, 3) will be."""
        args = self._for(vectors)
        distances, directions = vectors.new_empty(len(vectors)), torch.empty_like(vectors)
        args.distances, args.directions = distances.data_ptr(), directions.data_ptr()
        return self._kernels.prepared("pair_forward", args, (vectors, distances, directions)), (
            distances,
            directions,
        )

    def prepare_backward(
        self, vectors: Tensor, slopes: Tensor, radial_gradients: list[Tensor], turns: list[Tensor]
    ) -> tuple[Call, Tensor]:
        """The kernel, and where the gradients with respect to the vectors, (pairs, 3), will be.

        Args:
            vectors: (pairs, 3).
            slopes: Of the radial functions, (layers, pairs, functions).
            radial_gradients: Of each layer with respect to its radial functions, (pairs, functions).
            turns: Of each layer with respect to the directions, (pairs, 3).
        """
        args, gradients = self._for(vectors), torch.empty_like(vectors)
        args.layers, _, args.functions = slopes.shape
        args.slopes, args.gradients = slopes.data_ptr(), gradients.data_ptr()
        args.radial_gradients = (c_void_p * len(turns))(*(tensor.data_ptr() for tensor in radial_gradients))
        args.turns = (c_void_p * len(turns))(*(tensor.data_ptr() for tensor in turns))
        keep = (vectors, slopes, radial_gradients, turns, gradients)
        return self._kernels.prepared("pair_backward", args, keep), gradients

    def _for(self, vectors: Tensor) -> PairArgs:
        args = PairArgs()
        args.pairs, args.vectors = len(vectors), vectors.data_ptr()
        args.threads = threads_for(50 * len(vectors))
        return args
