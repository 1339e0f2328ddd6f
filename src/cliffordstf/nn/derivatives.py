"""Functions whose derivative is known in closed form, told to autograd instead of being traced by it.

A function of the distance or of the direction of an edge has few inputs and many outputs. Its Jacobian costs little
more than its value, and with it a force costs one product instead of a walk back through the function; training on
forces then differentiates that product, once.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cliffordstf.kernels.operator import used_gradients

Function = Callable[[Tensor], Tensor]


def with_jacobian(inputs: Tensor, values: Tensor, jacobian: Tensor, function: Function) -> Tensor:
    """`values`, with `jacobian` as their derivative with respect to `inputs`.

    Args:
        inputs: (rows, inputs).
        values: (rows, outputs), computed without tracing `inputs`; may depend on parameters.
        jacobian: (rows, outputs, inputs), likewise.
        function: The same function, traceable; evaluated only if the derivative of the Jacobian is asked for.
    """
    connected = _Jacobian.apply(inputs, jacobian, function)  # type: ignore[no-untyped-call]
    result: Tensor = _Known.apply(inputs, values, connected)  # type: ignore[no-untyped-call]
    return result


class _Known(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, _inputs: Tensor, values: Tensor, jacobian: Tensor) -> Tensor:
        ctx.save_for_backward(jacobian)
        ctx.set_materialize_grads(False)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, Tensor | None, None]:
        (gradient,) = gradients
        if gradient is None or not used_gradients(ctx, ctx.needs_input_grad)[0]:
            return None, gradient, None
        (jacobian,) = ctx.saved_tensors
        return (gradient[:, None] @ jacobian)[:, 0], gradient, None


class _Jacobian(torch.autograd.Function):
    """Connects a Jacobian to the inputs it was computed at."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, jacobian: Tensor, function: Function) -> Tensor:
        ctx.function = function
        ctx.save_for_backward(inputs)
        ctx.set_materialize_grads(False)
        return jacobian.view_as(jacobian)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, Tensor | None, None]:
        (gradient,) = gradients
        if gradient is None or not used_gradients(ctx, ctx.needs_input_grad[:2])[0]:
            return None, gradient, None
        (inputs,) = ctx.saved_tensors
        with torch.enable_grad():
            point = inputs.detach().requires_grad_()
            values = ctx.function(point)
            total = point.new_zeros(())
            for axis in range(point.shape[1]):
                (slope,) = torch.autograd.grad((values * gradient[:, :, axis]).sum(), point, create_graph=True)
                total = total + slope[:, axis].sum()
            (curved,) = torch.autograd.grad(total, point)
        return curved, gradient, None
