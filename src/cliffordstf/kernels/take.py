"""Components of a feature, as an operator of a recorded program."""

from collections.abc import Sequence
from functools import partial

from torch import Tensor
from typing_extensions import override

from cliffordstf.kernels.operator import Maybe, Operator, Tensors
from cliffordstf.kernels.plan import TakePlan
from cliffordstf.kernels.replay import add, do, zeros


class Take(Operator):
    """x (atoms, components, channels) -> (atoms, taken components, channels)."""

    kind = "take"
    plan_type = TakePlan
    plan: TakePlan
    roles = ("feature",)

    @override
    def shape(self, inputs: Tensors, context: Tensors) -> tuple[int, ...]:
        atoms, _, channels = inputs[0].shape
        return (atoms, self.plan.dims, channels)

    @override
    def forward(self, inputs: Tensors, context: Tensors) -> Tensor:
        # A copy: the value is kept apart from the feature that it is a part of.
        part = self._part(inputs[0])
        result = part.new_empty(part.shape)
        do(partial(result.copy_, part))
        return result

    @override
    def backward(self, gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]) -> list[Maybe]:
        return self.add_backward([zeros(inputs[0], *inputs[0].shape)], gradient, inputs, context, wanted)

    @override
    def add_backward(
        self, totals: Sequence[Maybe], gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]
    ) -> list[Maybe]:
        (total,) = totals
        if total is None:
            return self.backward(gradient, inputs, context, wanted)
        add(self._part(total), gradient)
        return [total]

    @override
    def second(
        self,
        cotangents: Sequence[Maybe],
        gradient: Tensor,
        inputs: Tensors,
        context: Tensors,
        wanted: Sequence[bool],
    ) -> list[Maybe]:
        (cotangent,) = cotangents
        return [None if cotangent is None else self.forward([cotangent], context), None]

    def _part(self, tensor: Tensor) -> Tensor:
        return tensor.narrow(1, self.plan.start, self.plan.dims)
