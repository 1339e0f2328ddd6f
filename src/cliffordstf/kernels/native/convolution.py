"""The edge operator in the frames of the edges, on the compiled kernels."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from cliffordstf.algebra.frames import aligned_numbers, generators, raising, track_basis
from cliffordstf.algebra.tracks import BIVECTOR, PSEUDOSCALAR, SCALAR, VECTOR, Track
from cliffordstf.graph import EdgeCounts, EdgeIndex
from cliffordstf.kernels.native.edge import EdgeKernel
from cliffordstf.kernels.native.library import ConvolutionArgs, FrameSide, FrameTurns, chunks_for, threads_for
from cliffordstf.kernels.operator import Tensors
from cliffordstf.kernels.plan import EdgePlan

MOST_COMPONENTS = 256
"""Components of features that the kernels have room for."""

_FIRST = {SCALAR: 0, PSEUDOSCALAR: 1, VECTOR: 2, BIVECTOR: 11}
_STF2 = 20
TINY = 1e-14

Array = NDArray[Any]
Placed = list[tuple[int, Track]]
"""Tracks with their first components."""


def _matrix_place(track: Track) -> int:
    """Where the matrix of a track begins in a frame."""
    return _FIRST.get(track, _STF2 + sum((2 * degree + 1) ** 2 for degree in range(2, track.degree)))


def _orders(degree: int) -> list[tuple[int, int]]:
    """First component of each order, and whether there is a second one."""
    return [(0, 0), *((2 * order - 1, 1) for order in range(1, degree + 1))]


@dataclass(frozen=True)
class FrameCost:
    """Multiply-adds of a plan in the frame of an edge, per channel.

    Attributes:
        source_matrices, target_matrices: To turn features, or results, into the frame or back.
        numbers: Numbers that the paths add up to.
        products: To multiply features by them.
        generators: To find how features and results change with the direction.
    """

    source_matrices: int
    target_matrices: int
    numbers: int
    products: int
    generators: int


def frame_cost(plan: EdgePlan) -> FrameCost:
    """What the operator cannot do without."""
    numbers = _numbers(plan)[0]
    matrices, turns = [], 0
    for end in (0, 1):
        rows = [(track, _rows(start, track, numbers, end)) for start, track in _placed(plan, end)]
        matrices.append(sum(track.dims * levels[0] for track, levels in rows))
        inside = (generators(track)[:, : levels[1], : levels[1]] for track, levels in rows)
        turns += sum(int(np.count_nonzero(np.abs(part) > TINY)) for part in inside)
    source, target = matrices
    return FrameCost(source, target, len(numbers), sum(1 + both for *_, both in numbers), turns // 2)


def _placed(plan: EdgePlan, end: int) -> Placed:
    """Tracks of the features (0) or of the result (1)."""
    found = {(p.target, p.coupling.c) if end else (p.source, p.coupling.a) for p in plan.paths}
    return sorted(found, key=lambda placed: placed[0])


def _rows(start: int, track: Track, numbers: list[list[int]], end: int) -> list[int]:
    """Components that a track has in the frame: those of orders that a path reaches, with one more, with two more."""
    reached = [number[end] - start for number in numbers if start <= number[end] < start + track.dims]
    order = max((component + 1) // 2 for component in reached)
    return [min(track.dims, 2 * (order + level) + 1) for level in range(3)]


class _Tables:
    """A plan as flat arrays, in the layout of frame.h and convolution.h."""

    def __init__(self, plan: EdgePlan, dtype: torch.dtype) -> None:
        self._number = np.float32 if dtype == torch.float32 else np.float64
        self._keep: list[Array] = []
        numbers, folds, factors = _numbers(plan)
        self.args = ConvolutionArgs()
        self.args.rows, self.args.numbers, self.args.folds = plan.weight_rows, len(numbers), len(folds)
        self.args.fold, self.args.fold_value = self._integers(folds), self._reals(factors)
        self._fill(self.args.source, plan.source_dims, _placed(plan, 0), numbers, 0)
        self._fill(self.args.target, plan.target_dims, _placed(plan, 1), numbers, 1)
        self.args.lmax = max(2, plan.degree)
        self.args.size = _STF2 + sum((2 * degree + 1) ** 2 for degree in range(2, self.args.lmax + 1))
        self._raise(self.args.lmax)

    def _integers(self, values: ArrayLike) -> int:
        self._keep.append(np.array(values, dtype=np.int32))
        return int(self._keep[-1].ctypes.data)

    def _reals(self, values: ArrayLike) -> int:
        self._keep.append(np.array(values, dtype=self._number))
        return int(self._keep[-1].ctypes.data)

    def _fill(self, side: FrameSide, components: int, tracks: Placed, numbers: list[list[int]], end: int) -> None:
        """Tracks of one side; `end` says which end of the numbers belongs to it."""
        side.components, side.tracks = components, len(tracks)
        rows = [_rows(start, track, numbers, end) for start, track in tracks]
        heads = [[start, track.degree, _matrix_place(track)] for start, track in tracks]
        side.track = self._integers([[*head, *levels] for head, levels in zip(heads, rows, strict=True)])
        orders: list[list[int]] = []
        links: list[tuple[int, int]] = []
        for start, track in tracks:
            for component, both in _orders(track.degree):
                mine = [(n[1 - end], i) for i, n in enumerate(numbers) if n[end] == start + component]
                orders.append([start + component, both, len(links), len(links) + len(mine)])
                links.extend(mine)
        side.orders, side.order, side.link = len(orders), self._integers(orders), self._integers(links)
        for level in (1, 2):
            turns = np.zeros((2, components, components))
            for (start, track), levels in zip(tracks, rows, strict=True):
                inside = slice(start, start + levels[level])
                turns[:, inside, inside] = generators(track)[:, : levels[level], : levels[level]]
            self._set_turns(side.turns[level - 1], turns)
        given = np.zeros((components, components))
        for start, track in tracks:
            basis = track_basis(track)
            # Gradients of results change in the opposite way to results.
            given[start : start + track.dims, start : start + track.dims] = np.linalg.inv(basis).T if end else basis
        for name, matrix in (("given", given), ("taken", given.T)):
            found = [np.flatnonzero(np.abs(row) > TINY) for row in matrix]
            setattr(side, f"{name}_pointers", self._integers(np.cumsum([0, *map(len, found)])))
            setattr(side, f"{name}_column", self._integers(np.concatenate(found)))
            setattr(side, f"{name}_value", self._reals(matrix[np.abs(matrix) > TINY]))

    def _set_turns(self, turns: FrameTurns, matrices: Array) -> None:
        rows, axes, columns = np.nonzero(np.abs(matrices.transpose(1, 0, 2)) > TINY)
        turns.count, turns.element = len(rows), self._integers(np.stack([columns, axes], axis=1))
        ends = np.arange(2 * matrices.shape[1] + 1)
        turns.pointers = self._integers(np.searchsorted(2 * rows + axes, ends))
        turns.value = self._reals(matrices[axes, rows, columns])

    def _raise(self, lmax: int) -> None:
        pointers, entries, values = [0, 0, 0], [], []
        for degree in range(2, lmax + 1):
            matrix = raising(degree)
            for row, first, lower in np.argwhere(np.abs(matrix) > TINY):
                entries.append([row, first, lower])
                values.append(matrix[row, first, lower])
            pointers.append(len(entries))
        self.args.raise_pointers, self.args.raise_entry = self._integers(pointers), self._integers(entries)
        self.args.raise_value = self._reals(values)


def _numbers(plan: EdgePlan) -> tuple[list[list[int]], list[tuple[int, int]], list[float]]:
    """Numbers (source, target, has a second component), which are sums of which rows of the weights, and factors."""
    places: dict[tuple[int, int], int] = {}
    numbers: list[list[int]] = []
    folds, factors = [], []
    for path in plan.paths:
        found = aligned_numbers(path.coupling) * path.scale
        for (component, both), factor in zip(_orders(len(found) - 1), found, strict=True):
            if abs(factor) < TINY:
                continue
            key = (path.source + component, path.target + component)
            if key not in places:
                places[key] = len(numbers)
                numbers.append([*key, both])
            folds.append((places[key], path.weight))
            factors.append(float(factor))
    return numbers, folds, factors


class EdgeConvolution(EdgeKernel[_Tables]):
    """Weights made in the kernel, w = phi U, and tensors of directions too; the context is an `EdgeIndex`.

    h (atoms, source, channels), phi (pairs, radial), U (radial, rows, channels), n (pairs, 3).
    """

    kind = "edge_convolution"
    family = "convolution"
    tables_type = _Tables
    roles = ("feature", "feature", "parameter", "geometry")
    operands = (("h", True), ("phi", False), ("U", True), ("n", False))

    @override
    def arguments(self, inputs: Tensors, context: Tensors, width: int) -> ConvolutionArgs:
        index = EdgeIndex(*context)
        args = ConvolutionArgs.from_buffer_copy(self.tables(inputs[0].dtype).args)
        args.channels, args.radial = width, inputs[1].shape[1]
        args.row_pointers, args.senders = index.row_pointers.data_ptr(), index.senders.data_ptr()
        args.receivers, args.pair_edges = index.receivers.data_ptr(), index.pair_edges.data_ptr()
        self.resize(args, EdgeCounts.of(index))
        return args

    @override
    def resize(self, args: ConvolutionArgs, counts: EdgeCounts) -> None:
        args.atoms, args.pairs = counts.atoms, counts.pairs
        args.chunks = chunks_for(counts.edges, 128)
        per_channel = self._work + args.radial * args.numbers // 2
        args.threads = threads_for(counts.edges * args.channels * per_channel)

    @cached_property
    def _work(self) -> int:
        """Multiply-adds of an edge and channel, without those that make the weights."""
        cost = frame_cost(self.plan)
        return cost.source_matrices + cost.target_matrices + cost.products
