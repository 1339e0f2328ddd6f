"""Linear maps over channels, track by track, on the compiled kernels."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from cliffordstf.graph import EdgeCounts
from cliffordstf.kernels.native.kernel import padded, padded_channels, uncut
from cliffordstf.kernels.native.library import Call, Library, LinearArgs, library, pointer, threads_for
from cliffordstf.kernels.operator import Maybe, Operator, Tensors
from cliffordstf.kernels.plan import AS_IT_IS, LinearPlan
from cliffordstf.kernels.replay import add, do

IntTable: TypeAlias = NDArray[np.int32]


class TrackLinearSum(Operator):
    """Σ over terms of scale · x W: inputs x (atoms, components, in), W (tracks, in, out) of every term in turn."""

    kind = "track_linear"
    plan_type = LinearPlan
    plan: LinearPlan

    def __init__(self, plan: LinearPlan) -> None:
        super().__init__(plan)
        self.roles = ("feature", "parameter") * len(plan.terms)
        self._tracks, self._is_full, self._fills_source = _first_writes(plan)
        # For sums of other terms than these, in another order, and for gradients that are added to others: everything
        # is added to what is there. Derivatives with respect to matrices pass over the tracks that have none.
        adding = [tracks.copy() for tracks in self._tracks]
        for tracks in adding:
            tracks[:, 4:] = 1
        with_matrix = [np.ascontiguousarray(tracks[tracks[:, 3] != AS_IT_IS]) for tracks in adding]
        self._all_have_matrices = all(
            len(some) == len(tracks) for some, tracks in zip(with_matrix, adding, strict=True)
        )
        self._first, self._adding, self._with_matrix = (
            [_Table.of(tracks) for tracks in tables] for tables in (self._tracks, adding, with_matrix)
        )

    @override
    def shape(self, inputs: Tensors, context: Tensors) -> tuple[int, ...]:
        return (inputs[0].shape[0], self.plan.target_dims, inputs[1].shape[2])

    @override
    def forward(self, inputs: Tensors, context: Tensors) -> Tensor:
        terms = [_Term(index, inputs[2 * index], inputs[2 * index + 1]) for index in range(len(self.plan.terms))]
        return self._sum(terms, inputs[0].shape[0], inputs[1].shape[2])

    @override
    def infer(self, inputs: Tensors, context: Tensors) -> Tensor:
        terms = []
        for index in range(len(self.plan.terms)):
            x, w = inputs[2 * index : 2 * index + 2]
            whole = uncut(x)
            terms.append(_Term(index, x.contiguous() if whole is None else whole, w.contiguous()))
        channels = inputs[1].shape[2]
        return self._whole_sum(terms, inputs[0].shape[0], channels)[..., :channels]

    @override
    def backward(self, gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]) -> list[Maybe]:
        return self.add_backward([None] * len(inputs), gradient, inputs, context, wanted)

    @override
    def add_backward(
        self, totals: Sequence[Maybe], gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]
    ) -> list[Maybe]:
        return self._gradients(totals, gradient, inputs, wanted, inputs)

    @override
    def second(
        self,
        cotangents: Sequence[Maybe],
        gradient: Tensor,
        inputs: Tensors,
        context: Tensors,
        wanted: Sequence[bool],
    ) -> list[Maybe]:
        return self.add_second([None] * len(inputs), cotangents, gradient, inputs, context, wanted)

    @override
    def add_second(
        self,
        totals: Sequence[Maybe],
        cotangents: Sequence[Maybe],
        gradient: Tensor,
        inputs: Tensors,
        context: Tensors,
        wanted: Sequence[bool],
    ) -> list[Maybe]:
        # Bilinear in x and W: the cotangents take the place of x, then that of W.
        terms = []
        for index in range(len(self.plan.terms)):
            x, w = inputs[2 * index : 2 * index + 2]
            ux, uw = cotangents[2 * index : 2 * index + 2]
            if ux is not None:
                terms.append(_Term(index, ux, w))
            if uw is not None:
                terms.append(_Term(index, x, uw, varied=True))
        out = self._sum(terms, gradient.shape[0], gradient.shape[2])
        return [out, *self._gradients(totals, gradient, inputs, wanted[1:], cotangents, varied=True)]

    def _sum(self, terms: Sequence["_Term"], atoms: int, channels: int) -> Tensor:
        out = self._whole_sum(terms, atoms, channels)
        return out if out.shape[2] == channels else out[..., :channels].contiguous()

    def _whole_sum(self, terms: Sequence["_Term"], atoms: int, channels: int) -> Tensor:
        """The sum, with channels up to whole vectors; features may have more channels than their weights."""
        like = terms[0].x
        width = padded_channels(channels, like.dtype)
        in_order = [term.index for term in terms] == list(range(len(self._tracks)))
        in_order = in_order and (self._all_have_matrices or not any(term.varied for term in terms))
        out = like.new_empty(atoms, self.plan.target_dims, width)
        cleared = () if in_order and self._is_full else (out,)
        args, keep, work = (LinearArgs * len(terms))(), [], []
        for arg, term in zip(args, terms, strict=True):
            weights = _padded_matrices(term.w, term.x.shape[2], width)
            keep.append(weights)
            tables = self._first if in_order else self._with_matrix if term.varied else self._adding
            work.append(self._describe(arg, term.index, tables, term.x.shape[2], width))
            arg.x, arg.w, arg.y = pointer(term.x), pointer(weights), pointer(out)
        do(_prepared("forward", like, args, work, (terms, keep, out), cleared))
        return out

    def _gradients(
        self,
        totals: Sequence[Maybe],
        gradient: Tensor,
        inputs: Tensors,
        wanted: Sequence[bool],
        operands: Sequence[Maybe],
        varied: bool = False,
    ) -> list[Maybe]:
        """Gradients of Σ x W with respect to the inputs, where `operands` stand for x and W themselves.

        They are added to the totals where there are any. If the operands are cotangents, `varied`, tracks without a
        matrix have no part in it.
        """
        varied = varied and not self._all_have_matrices
        results: list[Maybe] = []
        args, keep, cleared, work = (LinearArgs * len(self.plan.terms))(), [], [], []
        outputs = padded_channels(gradient.shape[2], gradient.dtype)
        g = padded(gradient, outputs)
        for index, arg in enumerate(args):
            x, w = inputs[2 * index : 2 * index + 2]
            other_x, other_w = operands[2 * index : 2 * index + 2]
            want_x, want_w = wanted[2 * index : 2 * index + 2]
            width = padded_channels(x.shape[2], x.dtype)
            ready = [padded(other_x, width), _padded_matrices(other_w, width, outputs)]
            keep.append(ready)
            total = totals[2 * index]
            adds = total is not None and total.shape[2] == width
            dx = None
            if want_x and other_w is not None:
                dx = total if adds else x.new_empty(*x.shape[:2], width)
                if dx is not None and not adds and (varied or not self._fills_source[index]):
                    cleared.append(dx)
            dw = w.new_empty(w.shape[0], width, outputs) if want_w and other_x is not None else None
            tables = self._with_matrix if varied else self._adding if adds else self._first
            work.append(self._describe(arg, index, tables, width, outputs))
            arg.g, arg.x, arg.w, arg.dx, arg.dw = (pointer(tensor) for tensor in (g, *ready, dx, dw))
            results += [dx, dw]
        do(_prepared("backward", gradient, args, work, (g, keep, results), cleared))
        return [
            _summed(total, _cut(result, tensor)) for total, result, tensor in zip(totals, results, inputs, strict=True)
        ]

    def _describe(self, args: LinearArgs, index: int, tables: list["_Table"], inputs: int, outputs: int) -> int:
        """Fill in what does not depend on the number of atoms; multiply-adds of each of them."""
        table = tables[index]
        args.tracks, args.track = table.count, table.address
        args.source, args.target = self.plan.terms[index].source_dims, self.plan.target_dims
        args.inputs, args.outputs, args.scale = inputs, outputs, self.plan.scale
        return table.components * inputs * outputs


@dataclass(frozen=True)
class _Term:
    """Feature and matrices of a term of the plan; `varied` if a cotangent stands for the matrices."""

    index: int
    x: Tensor
    w: Tensor
    varied: bool = False


@dataclass(frozen=True)
class _Table:
    """Tracks of a term as the kernel reads them.

    What it asks for is looked up once: that takes longer than a small product.
    """

    tracks: IntTable
    address: int
    count: int
    components: int

    @classmethod
    def of(cls, tracks: IntTable) -> "_Table":
        return cls(tracks, tracks.ctypes.data, len(tracks), int(tracks[:, 2].sum()))


class PreparedLinear:
    """A `TrackLinearSum` whose weights stay as they are: scaled, padded and transposed once.

    Args:
        plan: Of the sum.
        weights: Of each term, (tracks, in, out).
    """

    def __init__(self, plan: LinearPlan, weights: Sequence[Tensor]) -> None:
        like = weights[0]
        self._kernels = _kernels(like.dtype)
        self._tracks, self._is_full, self._fills_source = _first_writes(plan)
        self._dims = [term.source_dims for term in plan.terms], plan.target_dims
        self._sizes = [tuple(weight.shape[1:]) for weight in weights]
        self._outputs = padded_channels(like.shape[2], like.dtype)
        inputs = [padded_channels(weight.shape[1], like.dtype) for weight in weights]
        self._work = [
            int(tracks[:, 2].sum()) * width * self._outputs for tracks, width in zip(self._tracks, inputs, strict=True)
        ]
        scaled = [
            _padded_matrices(weight * plan.scale, width, self._outputs)
            for weight, width in zip(weights, inputs, strict=True)
        ]
        self._weights = [weight.contiguous() for weight in scaled if weight is not None]
        self._transposed = [weight.mT.contiguous() for weight in self._weights]
        self._forward, self._backward = (LinearArgs * len(weights))(), (LinearArgs * len(weights))()
        for args, matrices in ((self._forward, self._weights), (self._backward, self._transposed)):
            for arg, tracks, dims, width, matrix in zip(
                args, self._tracks, self._dims[0], inputs, matrices, strict=True
            ):
                arg.tracks, arg.track, arg.source, arg.target = len(tracks), tracks.ctypes.data, dims, self._dims[1]
                arg.inputs, arg.outputs, arg.scale, arg.ready = width, self._outputs, plan.scale, 1
                arg.w = pointer(matrix)

    def forward(self, features: Sequence[Tensor]) -> Tensor:
        """(atoms, components, in) of each term -> (atoms, components, out)."""
        call, out = self.prepare_forward(features)
        call()
        channels = self._sizes[0][1]
        return out if channels == self._outputs else out[..., :channels].contiguous()

    def prepare_forward(self, features: Sequence[Tensor]) -> tuple[Call, Tensor]:
        """The kernel and where its result will be, with channels up to whole vectors."""
        atoms = features[0].shape[0]
        out = features[0].new_empty(atoms, self._dims[1], self._outputs)
        ready = [padded(x, arg.inputs) for x, arg in zip(features, self._forward, strict=True)]
        args = type(self._forward).from_buffer_copy(self._forward)  # a copy: several threads may be at it
        for arg, x, work in zip(args, ready, self._work, strict=True):
            arg.atoms, arg.x, arg.y, arg.threads = atoms, pointer(x), out.data_ptr(), threads_for(atoms * work)
        cleared = () if self._is_full else (out,)
        return self._kernels.prepared_linear("forward", args, (ready, out, self), cleared), out

    def backward(self, gradient: Tensor) -> list[Tensor]:
        """Gradient of the output -> that of the features of each term."""
        call, results = self.prepare_backward(gradient)
        call()
        return [
            dx if dx.shape[2] == size[0] else dx[..., : size[0]].contiguous()
            for dx, size in zip(results, self._sizes, strict=True)
        ]

    def prepare_backward(self, gradient: Tensor) -> tuple[Call, list[Tensor]]:
        """The kernel and where the gradients will be, with channels up to whole vectors."""
        atoms, g = gradient.shape[0], padded(gradient, self._outputs)
        args, results = type(self._backward).from_buffer_copy(self._backward), []
        for arg, dims, work in zip(args, self._dims[0], self._work, strict=True):
            dx = gradient.new_empty(atoms, dims, arg.inputs)
            arg.atoms, arg.g, arg.dx, arg.threads = atoms, pointer(g), dx.data_ptr(), threads_for(atoms * work)
            results.append(dx)
        cleared = [dx for dx, fills in zip(results, self._fills_source, strict=True) if not fills]
        return self._kernels.prepared_linear("backward", args, (g, results, self), cleared), results


def _first_writes(plan: LinearPlan) -> tuple[list[IntTable], bool, list[bool]]:
    """Tracks of each term with marks for those that add to what another has written.

    Returns:
        Tables (tracks, 6); whether all of the target is written; for each term whether all of its source is, on the
        way back.
    """
    tables, fills, seen = [], [], set[tuple[int, int]]()
    for term in plan.terms:
        rows, back = [], set[tuple[int, int]]()
        for start, target, dims, matrix in term.tracks:
            rows.append([start, target, dims, matrix, int((target, dims) in seen), int((start, dims) in back)])
            seen.add((target, dims))
            back.add((start, dims))
        tables.append(np.array(rows, dtype=np.int32).reshape(-1, 6))
        fills.append(sum(dims for _, dims in back) == term.source_dims)
    return tables, sum(dims for _, dims in seen) == plan.target_dims, fills


def _padded_matrices(matrices: Maybe, inputs: int, outputs: int) -> Maybe:
    """With zeros in new rows and columns up to whole vectors."""
    if matrices is None or matrices.shape[1:] == (inputs, outputs):
        return matrices
    return torch.nn.functional.pad(matrices, (0, outputs - matrices.shape[2], 0, inputs - matrices.shape[1]))


def _summed(total: Maybe, result: Maybe) -> Maybe:
    if total is None or result is None:
        return result if total is None else total
    return total if result is total else add(total, result)


def _cut(result: Maybe, like: Tensor) -> Maybe:
    """Without the padding."""
    if result is None or result.shape == like.shape:
        return result
    return result[:, : like.shape[1], : like.shape[2]].contiguous()


def _prepared(
    name: str,
    like: Tensor,
    args: ctypes.Array[LinearArgs],
    work: Sequence[int],
    keep: object,
    cleared: Sequence[Tensor],
) -> Call:
    """The kernel on as many atoms as there are rows in `like`."""
    _resize(args, work, EdgeCounts(like.shape[0]))
    return _kernels(like.dtype).prepared_linear(name, args, (like, keep), cleared, partial(_resize, args, work))


def _resize(args: ctypes.Array[LinearArgs], work: Sequence[int], counts: EdgeCounts) -> None:
    for arg, per_atom in zip(args, work, strict=True):
        arg.atoms, arg.threads = counts.atoms, threads_for(counts.atoms * per_atom)


def _kernels(dtype: torch.dtype) -> Library:
    kernels = library(dtype)
    assert kernels is not None
    return kernels
