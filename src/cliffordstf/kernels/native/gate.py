"""The scalar gate on the compiled kernels."""

from collections.abc import Sequence

from torch import Tensor
from typing_extensions import override

from cliffordstf.kernels.native.library import GateArgs, library, pointer, threads_for
from cliffordstf.kernels.operator import Maybe, Operator, Tensors
from cliffordstf.kernels.plan import GatePlan
from cliffordstf.kernels.tables import gate_tables


class ScalarGate(Operator):
    """x (atoms, components, channels), z (atoms, gated tracks, channels), b (gated tracks, channels)."""

    kind = "scalar_gate"
    plan_type = GatePlan
    plan: GatePlan

    def __init__(self, plan: GatePlan) -> None:
        super().__init__(plan)
        self._tracks = gate_tables(plan)["tracks"]
        self._address = self._tracks.ctypes.data

    @override
    def shape(self, inputs: Tensors, context: Tensors) -> tuple[int, ...]:
        return tuple(inputs[0].shape)

    @override
    def forward(self, inputs: Tensors, context: Tensors) -> Tensor:
        args, out = self._args(inputs), inputs[0].new_empty(inputs[0].shape)
        args.out = pointer(out)
        _run("forward", out, args)
        return out

    @override
    def backward(self, gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]) -> list[Maybe]:
        args, results = self._args(inputs), [tensor.new_empty(tensor.shape) for tensor in inputs]
        args.g = pointer(gradient)
        args.dx, args.dz, args.db = (pointer(result) for result in results)
        _run("backward", gradient, args)
        return [result if want else None for result, want in zip(results, wanted, strict=True)]

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
        _run("second", gradient, args)
        return [result if want else None for result, want in zip(results, wanted, strict=True)]

    def _args(self, inputs: Tensors) -> GateArgs:
        args = GateArgs()
        args.atoms, args.components, args.channels = inputs[0].shape
        args.tracks, args.track = len(self._tracks), self._address
        args.x, args.z, args.b = (pointer(tensor) for tensor in inputs)
        args.silu_gain, args.sigmoid_gain = self.plan.silu_gain, self.plan.sigmoid_gain
        args.chunks = max(1, min(64, args.atoms // 8))
        args.threads = threads_for(10 * inputs[0].numel())
        return args


def _run(name: str, like: Tensor, args: GateArgs) -> None:
    kernels = library(like.dtype)
    assert kernels is not None
    kernels.call(f"gate_{name}", args)
