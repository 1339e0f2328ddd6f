"""Lengths and direction tensors of vectors on the compiled kernels, for inference."""

from ctypes import c_void_p

import numpy as np
import torch
from torch import Tensor

from cliffordstf.algebra.stf import power_polynomials
from cliffordstf.kernels.native.library import Call, PairArgs, library, threads_for


class PreparedPairs:
    """Distances and STF(n ⊗ … ⊗ n) of unit vectors, and the gradients with respect to the vectors.

    Args:
        lmax: Highest degree, at most 4.
        dtype: Of all tensors.
    """

    def __init__(self, lmax: int, dtype: torch.dtype) -> None:
        kernels = library(dtype)
        assert kernels is not None
        self._kernels, self._components = kernels, (lmax + 1) ** 2
        monomials, table = power_polynomials(lmax, unit=True)
        place = {key: index for index, key in enumerate(monomials)}
        parents = [(0, 0)]
        for key in monomials[1:]:
            axis = next(axis for axis in range(3) if key[axis])
            x, y, z = (power - int(other == axis) for other, power in enumerate(key))
            parents.append((place[x, y, z], axis))
        coefficients = table.numpy()  # (monomials, tensors and three slopes, components)
        terms = [(c, m) for m, c in np.argwhere(coefficients[:, 0])]
        slope_terms = [(c, m, axis) for m, axis, c in np.argwhere(coefficients[:, 1:])]
        number = np.float32 if dtype == torch.float32 else np.float64
        self._arrays = {
            "parent": np.array(parents, dtype=np.int32),
            "term": np.array(terms, dtype=np.int32),
            "slope_term": np.array(slope_terms, dtype=np.int32).reshape(-1, 3),
            "value": np.array([coefficients[m, 0, c] for c, m in terms], dtype=number),
            "slope_value": np.array([coefficients[m, 1 + axis, c] for c, m, axis in slope_terms], dtype=number),
        }
        self._args = PairArgs()
        self._args.components, self._args.monomials = self._components, len(monomials)
        self._args.terms, self._args.slope_terms = len(terms), len(slope_terms)
        for name, array in self._arrays.items():
            setattr(self._args, name, array.ctypes.data)

    def prepare_forward(self, vectors: Tensor) -> tuple[Call, tuple[Tensor, Tensor]]:
        """The kernel on vectors (pairs, 3), and where distances (pairs,) and directions (pairs, components) will be."""
        args = self._for(vectors)
        distances, directions = vectors.new_empty(len(vectors)), vectors.new_empty(len(vectors), self._components)
        args.distances, args.directions = distances.data_ptr(), directions.data_ptr()
        return self._kernels.prepared("pair_forward", args, (self, vectors, distances, directions)), (
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
            turns: Of each layer with respect to the direction tensors, (pairs, components).
        """
        args, gradients = self._for(vectors), torch.empty_like(vectors)
        args.layers, _, args.functions = slopes.shape
        args.slopes, args.gradients = slopes.data_ptr(), gradients.data_ptr()
        args.radial_gradients = (c_void_p * len(turns))(*(tensor.data_ptr() for tensor in radial_gradients))
        args.turns = (c_void_p * len(turns))(*(tensor.data_ptr() for tensor in turns))
        keep = (self, vectors, slopes, radial_gradients, turns, gradients)
        return self._kernels.prepared("pair_backward", args, keep), gradients

    def _for(self, vectors: Tensor) -> PairArgs:
        args = PairArgs.from_buffer_copy(self._args)  # a copy: several threads may be at it
        args.pairs, args.vectors = len(vectors), vectors.data_ptr()
        args.threads = threads_for(10 * len(vectors) * (args.terms + args.slope_terms))
        return args
