"""The edge operator in the frames of the edges, on the compiled kernels."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels.native.edge import EdgeKernel
from cliffordstf.kernels.native.library import ConvolutionArgs, FrameSide, chunks_for, threads_for
from cliffordstf.kernels.operator import Tensors
from cliffordstf.kernels.plan import EdgePlan
from cliffordstf.kernels.tables import convolution_tables, frame_cost, frame_size

MOST_COMPONENTS = 256
"""Components of features that the kernels have room for."""


class _Tables:
    """A plan as the kernels' arguments, and the arrays that they point to."""

    def __init__(self, plan: EdgePlan, dtype: torch.dtype) -> None:
        tables, sizes = convolution_tables(plan)
        number = np.float32 if dtype == torch.float32 else np.float64
        self._arrays: dict[str, NDArray[Any]] = {
            name: table.astype(number) if table.dtype == np.float64 else table for name, table in tables.items()
        }
        self.args = ConvolutionArgs()
        self.args.rows, self.args.numbers, self.args.folds = plan.weight_rows, sizes["numbers"], len(tables["fold"])
        self.args.fold, self.args.fold_value = self._address("fold"), self._address("fold_value")
        self._fill("source", self.args.source, plan.source_dims)
        self._fill("target", self.args.target, plan.target_dims)
        self.args.lmax, self.args.size = sizes["lmax"], frame_size(sizes["lmax"])
        for name in ("raise_pointers", "raise_entry", "raise_value"):
            setattr(self.args, name, self._address(name))

    def _address(self, name: str) -> int:
        return int(self._arrays[name].ctypes.data)

    def _fill(self, name: str, side: FrameSide, components: int) -> None:
        side.components = components
        side.tracks, side.orders = len(self._arrays[f"{name}.track"]), len(self._arrays[f"{name}.order"])
        for key in ("track", "order", "link"):
            setattr(side, key, self._address(f"{name}.{key}"))
        for turns, key in zip(side.turns, ("turn", "second_turn"), strict=True):
            turns.count = len(self._arrays[f"{name}.{key}.element"])
            for part in ("pointers", "element", "value"):
                setattr(turns, part, self._address(f"{name}.{key}.{part}"))
        for key in ("given", "taken"):
            for part in ("pointers", "column", "value"):
                setattr(side, f"{key}_{part}", self._address(f"{name}.{key}.{part}"))


class EdgeConvolution(EdgeKernel[_Tables]):
    """Weights made in the kernel, w = phi U, and tensors of directions too; the context is an `EdgeIndex`.

    h (atoms, source, channels), phi (pairs, radial), U (radial, rows, channels), n (pairs, 3).
    """

    kind = "edge_convolution"
    family = "convolution"
    tables_type = _Tables
    operands = (("h", True), ("phi", False), ("U", True), ("n", False))

    @override
    def arguments(self, inputs: Tensors, context: Tensors, width: int) -> ConvolutionArgs:
        index = EdgeIndex(*context)
        args = ConvolutionArgs.from_buffer_copy(self.tables(inputs[0].dtype).args)
        args.channels, args.radial = width, inputs[1].shape[1]
        args.row_pointers, args.senders = index.row_pointers.data_ptr(), index.senders.data_ptr()
        args.receivers, args.pair_edges = index.receivers.data_ptr(), index.pair_edges.data_ptr()
        args.atoms, args.pairs = len(index.row_pointers) - 1, len(index.pair_edges)
        edges = len(index.senders)
        args.chunks = chunks_for(edges, 128)
        per_channel = self._work + args.radial * args.numbers // 2
        args.threads = threads_for(edges * args.channels * per_channel)
        return args

    @cached_property
    def _work(self) -> int:
        """Multiply-adds of an edge and channel, without those that make the weights."""
        cost = frame_cost(self.plan)
        return cost.source_matrices + cost.target_matrices + cost.products
