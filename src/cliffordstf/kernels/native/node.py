"""The node product on the compiled kernels."""

import numpy as np
import torch
from typing_extensions import override

from cliffordstf.graph import EdgeCounts
from cliffordstf.kernels.native.kernel import MultilinearKernel
from cliffordstf.kernels.native.library import NodeArgs, threads_for
from cliffordstf.kernels.operator import Tensors
from cliffordstf.kernels.plan import NodePlan

_ENTRIES = {
    torch.float32: np.dtype([("result", "i4"), ("p", "i4"), ("q", "i4"), ("value", "f4")], align=True),
    torch.float64: np.dtype([("result", "i4"), ("p", "i4"), ("q", "i4"), ("value", "f8")], align=True),
}


class NodeBilinear(MultilinearKernel):
    """x (atoms, left, channels), y (atoms, right, channels), w (groups, rows, channels).

    The context is empty or holds the group of each atom, int64 (atoms,).
    """

    kind = "node_bilinear"
    plan_type = NodePlan
    plan: NodePlan
    family = "node"
    roles = ("feature", "feature", "parameter")
    operands = (("x", True), ("y", True), ("w", True))
    sums = ("x", "y")

    def __init__(self, plan: NodePlan) -> None:
        super().__init__(plan)
        paths: list[list[int]] = []
        entries: list[tuple[int, int, int, float]] = []
        tables = plan.tables(torch.float64, torch.device("cpu"))
        for path, table in zip(plan.paths, tables, strict=True):
            a, b, c = path.coupling.a, path.coupling.b, path.coupling.c
            terms = [(int(i), int(j), int(k), float(table[i, j, k])) for i, j, k in table.nonzero()]
            orders = (
                sorted((k, i, j, v) for i, j, k, v in terms),
                sorted((i, k, j, v) for i, j, k, v in terms),
                sorted((j, k, i, v) for i, j, k, v in terms),
            )
            starts = [len(entries) + index * len(terms) for index in range(3)]
            for order in orders:
                entries += order
            paths.append([path.left, path.right, path.target, a.dims, b.dims, c.dims, path.weight, len(terms), *starts])
        self._paths = np.array(paths, dtype=np.int32)
        self._count = len(entries)
        self._entries = {dtype: np.array(entries, dtype=kind) for dtype, kind in _ENTRIES.items()}
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
        args.channels, args.groups = width, inputs[2].shape[0]
        args.group = context[0].data_ptr() if context else None
        self.resize(args, EdgeCounts(inputs[0].shape[0]))
        return args

    @override
    def resize(self, args: NodeArgs, counts: EdgeCounts) -> None:
        args.atoms = counts.atoms
        # Every chunk of atoms has partial sums for the weights of all groups: few chunks if these are large.
        chunks = max(8, min(64, 2**20 // (args.groups * args.rows * args.channels)))
        args.chunks = max(1, min(chunks, counts.atoms // 8))
        args.threads = threads_for(counts.atoms * args.channels * self._count)
