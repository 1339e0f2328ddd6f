"""The scalar gate on the compiled kernels."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from torch import Tensor
from typing_extensions import override

from cliffordstf.graph import EdgeCounts
from cliffordstf.kernels.native.library import Call, GateArgs, library, pointer, threads_for
from cliffordstf.kernels.operator import Maybe, Operator, Tensors
from cliffordstf.kernels.plan import GatePlan
from cliffordstf.kernels.replay import add, do


class ScalarGate(Operator):
    """x (atoms, components, channels), z (atoms, gated tracks, channels), b (gated tracks, channels)."""

    kind = "scalar_gate"
    plan_type = GatePlan
    plan: GatePlan
    roles = ("feature", "feature", "parameter")

    def __init__(self, plan: GatePlan) -> None:
        super().__init__(plan)
        self._tracks = np.array(plan.tracks, dtype=np.int32).reshape(-1, 2)
        self._address = self._tracks.ctypes.data

    @override
    def shape(self, inputs: Tensors, context: Tensors) -> tuple[int, ...]:
        return tuple(inputs[0].shape)

    @override
    def forward(self, inputs: Tensors, context: Tensors) -> Tensor:
        call, out = self.prepare_forward(inputs)
        do(call)
        return out

    def prepare_forward(self, inputs: Tensors) -> tuple[Call, Tensor]:
        """The kernel and where its result will be."""
        args, out = self._args(inputs), inputs[0].new_empty(inputs[0].shape)
        args.out = pointer(out)
        return _prepared("forward", out, args, inputs), out

    @override
    def backward(self, gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]) -> list[Maybe]:
        return self.add_backward([None] * len(inputs), gradient, inputs, context, wanted)

    @override
    def add_backward(
        self, totals: Sequence[Maybe], gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]
    ) -> list[Maybe]:
        call, results = self.prepare_backward(gradient, inputs, totals[0] if wanted[0] else None)
        do(call)
        return _sums(totals, results, wanted)

    def prepare_backward(self, gradient: Tensor, inputs: Tensors, total: Maybe = None) -> tuple[Call, list[Tensor]]:
        """The kernel and where the gradients will be; that of the features is added to a total if there is one."""
        args, results = self._args(inputs), _results(inputs, total)
        args.g, args.add_x = pointer(gradient), int(total is not None)
        args.dx, args.dz, args.db = (pointer(result) for result in results)
        return _prepared("backward", gradient, args, (gradient, inputs, results)), results

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
        total = totals[0] if wanted[1] else None
        args, results = self._args(inputs), [gradient.new_empty(gradient.shape), *_results(inputs, total)]
        args.g, args.add_x = pointer(gradient), int(total is not None)
        args.ux, args.uz, args.ub = (pointer(cotangent) for cotangent in cotangents)
        args.out, args.dx, args.dz, args.db = (pointer(result) for result in results)
        do(_prepared("second", gradient, args, (gradient, cotangents, inputs, results)))
        return _sums([None, *totals], results, wanted)

    def _args(self, inputs: Tensors) -> GateArgs:
        args, (atoms, components, channels) = GateArgs(), inputs[0].shape
        args.tracks, args.track = len(self._tracks), self._address
        args.components, args.channels = components, channels
        args.x, args.z, args.b = (pointer(tensor) for tensor in inputs)
        args.silu_gain, args.sigmoid_gain = self.plan.silu_gain, self.plan.sigmoid_gain
        _resize(args, EdgeCounts(atoms))
        return args


def _resize(args: GateArgs, counts: EdgeCounts) -> None:
    args.atoms = counts.atoms
    args.chunks = max(1, min(64, counts.atoms // 8))
    args.threads = threads_for(10 * counts.atoms * args.components * args.channels)


def _results(inputs: Tensors, total: Maybe) -> list[Tensor]:
    """Where gradients go, that of the features to its total if there is one."""
    return [tensor.new_empty(tensor.shape) if index or total is None else total for index, tensor in enumerate(inputs)]


def _sums(totals: Sequence[Maybe], results: Sequence[Tensor], wanted: Sequence[bool]) -> list[Maybe]:
    """The wanted gradients, with what the kernel has not added to their totals."""
    found: list[Maybe] = []
    for total, result, want in zip(totals, results, wanted, strict=True):
        if not want:
            found.append(total)
        else:
            found.append(result if total is None or result is total else add(total, result))
    return found


def _prepared(name: str, like: Tensor, args: GateArgs, keep: object) -> Call:
    kernels = library(like.dtype)
    assert kernels is not None
    return kernels.prepared(f"gate_{name}", args, (like, keep), partial(_resize, args))
