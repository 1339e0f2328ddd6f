"""The node product on the compiled kernels."""

import numpy as np
import torch
from typing_extensions import override

from cliffordstf.kernels.native.kernel import MultilinearKernel
from cliffordstf.kernels.native.library import NodeArgs, threads_for
from cliffordstf.kernels.operator import Tensors
from cliffordstf.kernels.plan import NodePlan
from cliffordstf.kernels.tables import node_tables

_ENTRIES = {
    torch.float32: np.dtype([("place", "i4", 3), ("value", "f4")], align=True),
    torch.float64: np.dtype([("place", "i4", 3), ("value", "f8")], align=True),
}


class NodeBilinear(MultilinearKernel):
    """x (atoms, left, channels), y (atoms, right, channels), w (groups, rows, channels).

    The context is empty or holds the group of each atom, int64 (atoms,).
    """

    kind = "node_bilinear"
    plan_type = NodePlan
    plan: NodePlan
    family = "node"
    operands = (("x", True), ("y", True), ("w", True))

    def __init__(self, plan: NodePlan) -> None:
        super().__init__(plan)
        tables = node_tables(plan)
        self._paths, self._count = tables["paths"], len(tables["entries"])
        self._entries = {}
        for dtype, kind in _ENTRIES.items():
            self._entries[dtype] = np.empty(self._count, dtype=kind)
            self._entries[dtype]["place"], self._entries[dtype]["value"] = tables["entries"], tables["values"]
        self._addresses = {dtype: array.ctypes.data for dtype, array in self._entries.items()}
        self._path_address = self._paths.ctypes.data

    @override
    def shape(self, inputs: Tensors, context: Tensors) -> tuple[int, ...]:
        return (inputs[0].shape[0], self.plan.target_dims, inputs[0].shape[2])

    @override
    def arguments(self, inputs: Tensors, context: Tensors, width: int) -> NodeArgs:
        args, plan = NodeArgs(), self.plan
        args.paths, args.left, args.right = len(plan.paths), plan.left_dims, plan.right_dims
        args.target, args.rows = plan.target_dims, inputs[2].shape[1]
        args.path, args.entry = self._path_address, self._addresses[inputs[0].dtype]
        args.atoms, args.channels, args.groups = inputs[0].shape[0], width, inputs[2].shape[0]
        args.group = context[0].data_ptr() if context else None
        # Every chunk of atoms has partial sums for the weights of all groups: few chunks if these are large.
        chunks = max(8, min(64, 2**20 // (args.groups * args.rows * args.channels)))
        args.chunks = max(1, min(chunks, args.atoms // 8))
        args.threads = threads_for(args.atoms * args.channels * self._count)
        return args
