"""Radial functions and their slopes on the compiled kernels, for inference."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from cliffordstf.kernels.native.kernel import padded, padded_channels
from cliffordstf.kernels.native.library import Call, RadialArgs, library, threads_for


class PreparedRadial:
    """A network on a Bessel basis, times a polynomial envelope, whose weights stay as they are.

    Args:
        matrices: Of every layer of the network, (in, out); SiLU stands between them.
        biases: Of every layer, (out,).
        shifts: What each element of a pair adds to the first hidden layer, (elements, out), or None.
        layers: Of the model, each of which takes an equal share of the outputs.
        cutoff: Å.
        power: Of the envelope.
        warp: Of the basis, Å, or None.
    """

    def __init__(
        self,
        matrices: Sequence[Tensor],
        biases: Sequence[Tensor],
        shifts: Tensor | None,
        layers: int,
        cutoff: float,
        power: int,
        warp: float | None = None,
    ) -> None:
        dtype = matrices[0].dtype
        kernels = library(dtype)
        assert kernels is not None
        self._kernels = kernels
        widths = [matrices[0].shape[0], *(padded_channels(len(bias), dtype) for bias in biases)]
        self._widths = np.array(widths, dtype=np.int64)
        parts: list[Tensor] = []
        for matrix, bias, rows, columns in zip(matrices, biases, widths[:-1], widths[1:], strict=True):
            whole = matrix.new_zeros(rows + 1, columns)
            whole[: matrix.shape[0], : matrix.shape[1]] = matrix
            whole[rows, : len(bias)] = bias
            parts.append(whole.flatten())
        self._weights = torch.cat(parts)
        self._layers, self._functions = layers, len(biases[-1]) // layers
        self._args = RadialArgs()
        self._args.basis, self._args.depth = widths[0], len(matrices)
        self._args.functions, self._args.layers = self._functions, layers
        self._args.power, self._args.cutoff, self._args.warp = power, cutoff, warp or 0.0
        self._args.widths, self._args.weights = self._widths.ctypes.data, self._weights.data_ptr()
        # A copy, like the matrices: what the kernel reads must not change by halves, nor lie anywhere but in rows.
        self._shifts = (
            None if shifts is None else cast("Tensor", padded(shifts.detach().contiguous(), widths[1])).clone()
        )
        self._args.shifts = None if self._shifts is None else self._shifts.data_ptr()

    def __call__(self, distances: Tensor, ends: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Distances (pairs,), Å -> functions and their slopes, 1/Å, (layers, pairs, functions) each."""
        call, results = self.prepare(distances, ends)
        call()
        return results

    def prepare(self, distances: Tensor, ends: Tensor | None = None) -> tuple[Call, tuple[Tensor, Tensor]]:
        """The kernel and where functions and slopes will be; `ends` are elements, int64 (pairs, 2), for the shifts."""
        pairs = len(distances)
        assert self._shifts is None or ends is not None
        values = distances.new_empty(self._layers, pairs, self._functions)
        slopes = torch.empty_like(values)
        args = RadialArgs.from_buffer_copy(self._args)  # a copy: several threads may be at it
        args.pairs, args.distances = pairs, distances.data_ptr()
        args.values, args.slopes = values.data_ptr(), slopes.data_ptr()
        args.ends = None if ends is None else ends.data_ptr()
        args.threads = threads_for(2 * pairs * len(self._weights))
        return self._kernels.prepared("radial_forward", args, (self, distances, ends, values, slopes)), (values, slopes)
