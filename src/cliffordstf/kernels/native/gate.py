"""The scalar gate on the compiled kernels."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor
from typing_extensions import override

from cliffordstf.kernels.native.library import Call, GateArgs, library, pointer, threads_for
from cliffordstf.kernels.operator import Maybe, Operator, Tensors
from cliffordstf.kernels.plan import GatePlan


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
        call()
        return out

    def prepare_forward(self, inputs: Tensors) -> tuple[Call, Tensor]:
        """The kernel and where its result will be."""
        args, out = self._args(inputs), inputs[0].new_empty(inputs[0].shape)
        args.out = pointer(out)
        return _prepared("forward", out, args, inputs), out

    @override
    def backward(self, gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]) -> list[Maybe]:
        call, results = self.prepare_backward(gradient, inputs)
        call()
        return [result if want else None for result, want in zip(results, wanted, strict=True)]

    def prepare_backward(self, gradient: Tensor, inputs: Tensors) -> tuple[Call, list[Tensor]]:
        """The kernel and where the gradients will be."""
        args, results = self._args(inputs), [tensor.new_empty(tensor.shape) for tensor in inputs]
        args.g = pointer(gradient)
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
        args, results = self._args(inputs), [tensor.new_empty(tensor.shape) for tensor in (gradient, *inputs)]
        args.g = pointer(gradient)
        args.ux, args.uz, args.ub = (pointer(cotangent) for cotangent in cotangents)
        args.out, args.dx, args.dz, args.db = (pointer(result) for result in results)
        _prepared("second", gradient, args, (gradient, cotangents, inputs))()
        return [result if want else None for result, want in zip(results, wanted, strict=True)]

    def _args(self, inputs: Tensors) -> GateArgs:
        args, (atoms, components, channels) = GateArgs(), inputs[0].shape
        args.tracks, args.track = len(self._tracks), self._address
        args.atoms, args.components, args.channels = atoms, components, channels
        args.x, args.z, args.b = (pointer(tensor) for tensor in inputs)
        args.silu_gain, args.sigmoid_gain = self.plan.silu_gain, self.plan.sigmoid_gain
        args.chunks = max(1, min(64, atoms // 8))
        args.threads = threads_for(10 * atoms * components * channels)
        return args


def _prepared(name: str, like: Tensor, args: GateArgs, keep: object) -> Call:
    kernels = library(like.dtype)
    assert kernels is not None
    return kernels.prepared(f"gate_{name}", args, (like, keep))
