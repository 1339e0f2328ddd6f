"""The edge operators on the compiled kernels."""

from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels.native.kernel import MultilinearKernel
from cliffordstf.kernels.native.library import EdgeArgs, chunks_for, threads_for
from cliffordstf.kernels.operator import Tensors
from cliffordstf.kernels.plan import EdgePlan

LARGEST_DEGREE = 4
"""Of the tracks that the kernels are compiled for."""


_TABLES = (
    *("path", "matrix_pointers", "entry_edge", "entry_value"),
    *("path_pointers", "transposed_edge", "transposed_pointers", "transposed_matrix", "transposed_value"),
)


class _Tables:
    """A plan as flat arrays, in the layout of path.h and edge.h."""

    def __init__(self, plan: EdgePlan, dtype: torch.dtype) -> None:
        coefficients = [table.numpy() for table in plan.tables(torch.float64, torch.device("cpu"))]
        rows: list[list[int]] = []
        pointers: list[int] = [0]
        edges: list[int] = []
        values: list[float] = []
        seen: set[int] = set()
        matrix = 0
        for path, table in zip(plan.paths, coefficients, strict=True):
            a, b, c = path.coupling.a, path.coupling.b, path.coupling.c
            flags = [path.weight not in seen, b.degree == 0]
            rows.append([a.dims, c.dims, path.source, path.target, path.weight, matrix, *flags])
            seen.add(path.weight)
            for k in range(c.dims):
                for i in range(a.dims):
                    for j in np.flatnonzero(table[i, :, k]):
                        edges.append(path.edge + int(j))
                        values.append(table[i, j, k])
                    pointers.append(len(edges))
            matrix += a.dims * c.dims
        number = np.float32 if dtype == torch.float32 else np.float64
        self.matrix = matrix
        self.arrays: list[NDArray[Any]] = [
            np.array(rows, dtype=np.int32),
            np.array(pointers, dtype=np.int32),
            np.array(edges, dtype=np.int32),
            np.array(values, dtype=number),
            *_by_edge_component(plan, coefficients, number),
        ]
        self.addresses = [array.ctypes.data for array in self.arrays]


def _by_edge_component(plan: EdgePlan, coefficients: list[NDArray[Any]], number: type) -> list[NDArray[Any]]:
    """The same entries ordered by component of Y, for the gradient with respect to it."""
    paths, components, pointers, elements, factors = [0], [], [0], [], []
    for path, table in zip(plan.paths, coefficients, strict=True):
        for b in range(path.coupling.b.dims):
            components.append(path.edge + b)
            for a, c in zip(*np.nonzero(table[:, b]), strict=True):
                elements.append(int(c) * path.coupling.a.dims + int(a))
                factors.append(table[a, b, c])
            pointers.append(len(elements))
        paths.append(len(components))
    indices = [np.array(values, dtype=np.int32) for values in (paths, components, pointers, elements)]
    return [*indices, np.array(factors, dtype=number)]


TablesT = TypeVar("TablesT")


class EdgeKernel(MultilinearKernel, Generic[TablesT]):
    """What operators on edges share: the plan and its tables. The context is an `EdgeIndex`."""

    plan_type = EdgePlan
    plan: EdgePlan
    tables_type: type[TablesT]

    def __init__(self, plan: EdgePlan) -> None:
        super().__init__(plan)
        self._tables: dict[torch.dtype, TablesT] = {}

    def tables(self, dtype: torch.dtype) -> TablesT:
        """The plan as the kernel of a precision takes it, made once."""
        if dtype not in self._tables:
            self._tables[dtype] = self.tables_type(self.plan, dtype)  # type: ignore[call-arg]
        return self._tables[dtype]

    @override
    def shape(self, inputs: Tensors, context: Tensors) -> tuple[int, ...]:
        return (inputs[0].shape[0], self.plan.target_dims, inputs[0].shape[2])


class _MatrixKernel(EdgeKernel[_Tables]):
    """What the operators with a small matrix for every path share."""

    family = "edge"
    tables_type = _Tables

    @override
    def arguments(self, inputs: Tensors, context: Tensors, width: int) -> EdgeArgs:
        plan, index = self.plan, EdgeIndex(*context)
        tables = self.tables(inputs[0].dtype)
        args = EdgeArgs()
        args.paths, args.matrix, args.source = len(plan.paths), tables.matrix, plan.source_dims
        args.edge, args.target, args.rows = plan.edge_dims, plan.target_dims, plan.weight_rows
        for name, address in zip(_TABLES, tables.addresses, strict=True):
            setattr(args, name, address)
        args.channels = width
        args.row_pointers, args.neighbours = index.row_pointers.data_ptr(), index.senders.data_ptr()
        args.receivers, args.reverse = index.receivers.data_ptr(), index.reverse.data_ptr()
        args.pair, args.pair_edges = index.pair.data_ptr(), index.pair_edges.data_ptr()
        args.atoms, args.edges, args.pairs = len(index.row_pointers) - 1, len(index.senders), len(index.pair_edges)
        args.chunks = chunks_for(args.edges)
        args.threads = threads_for(args.edges * args.channels * args.matrix)
        return args


class EdgeTrilinear(_MatrixKernel):
    """Weights given per edge: h (atoms, source, channels), w (edges, rows, channels), Y (edges, edge)."""

    kind = "edge_trilinear"
    operands = (("h", True), ("w", True), ("Y", False))


class EdgeFactored(_MatrixKernel):
    """Weights given per pair, with a factor per edge and row.

    h (atoms, source, channels), w (pairs, rows, channels), f (edges, rows), Y (edges, edge).
    """

    kind = "edge_factored"
    operands = (("h", True), ("w", True), ("f", False), ("Y", False))
