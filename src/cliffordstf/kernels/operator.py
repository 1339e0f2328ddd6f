"""Operators with hand-written first and second derivatives, and how autograd and the compiler see them.

An operator maps input tensors to one output tensor. Its `backward` is again a map of tensors, whose derivative is
`second`: enough to train on forces. In eager mode two `autograd.Function`s connect the three; while `torch.compile` or
`torch.export` traces, three registered custom operators do, which tracing sees as opaque calls.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

Tensors = Sequence[Tensor]
Maybe = Tensor | None

THIRD_DERIVATIVE = "the compiled kernels have two derivatives; for a third one use engine='reference'."
"""Error message for a third derivative."""


def used_gradients(node: Any, needs: Sequence[bool]) -> list[bool]:
    """Which gradients the running backward pass goes on to use, of those that require one.

    Autograd calls for the gradient of every input that requires one: that of weights also where only forces are
    computed. The pass itself knows which nodes come next.

    Args:
        node: Context of a function whose `backward` is running.
        needs: For each of its tensors, in their order, whether it requires a gradient.
    """
    return [need and _is_executed(following[0]) for need, following in zip(needs, node.next_functions, strict=True)]


def _is_executed(node: Any) -> bool:
    if node is None:
        return False
    try:
        executed: bool = torch._C._will_engine_execute_node(node)
    except RuntimeError:  # a leaf whose gradient `autograd.grad` was called for
        return True
    return executed


class Plan(Protocol):
    """What an operator does, as a value that can be written as text."""

    @property
    def key(self) -> str:
        """The plan as text."""
        ...

    @classmethod
    def from_key(cls, key: str) -> "Plan":
        """The plan of a text."""
        ...


class Operator:
    """A map of tensors with two derivatives. Made from a plan, immutable, and found again by the plan's key.

    Attributes:
        kind: Name of the class in the registry.
        plan_type: Class of its plan.
    """

    kind: ClassVar[str]
    plan_type: ClassVar[type[Plan]]
    registry: ClassVar[dict[str, type["Operator"]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            Operator.registry[cls.kind] = cls

    def __init__(self, plan: Any) -> None:
        self.plan = plan

    @property
    def key(self) -> str:
        """All that `from_key` needs to make the operator again, in this process or another."""
        return str(self.plan.key)

    @classmethod
    @cache
    def from_key(cls, key: str) -> Self:
        """The operator of a key, made once."""
        return cls(cls.plan_type.from_key(key))

    def shape(self, inputs: Tensors, context: Tensors) -> tuple[int, ...]:
        """Shape of the output."""
        raise NotImplementedError

    def forward(self, inputs: Tensors, context: Tensors) -> Tensor:
        """The output."""
        raise NotImplementedError

    def infer(self, inputs: Tensors, context: Tensors) -> Tensor:
        """The output where nobody differentiates it; neither it nor the inputs need be contiguous."""
        return self.forward([tensor.contiguous() for tensor in inputs], context)

    def backward(self, gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]) -> list[Maybe]:
        """Gradients of the inputs that are wanted, None for the others."""
        raise NotImplementedError

    def second(
        self,
        cotangents: Sequence[Maybe],
        gradient: Tensor,
        inputs: Tensors,
        context: Tensors,
        wanted: Sequence[bool],
    ) -> list[Maybe]:
        """Gradients of Σ <cotangent, result of `backward`> with respect to `gradient` and the wanted inputs."""
        raise NotImplementedError

    def __call__(self, inputs: Tensors, context: Tensors = ()) -> Tensor:
        """Apply the operator; differentiable twice."""
        if is_traced(inputs):
            result: Tensor = torch.ops.cliffordstf.forward(self.kind, self.key, [*inputs, *context], len(inputs))
            return result
        if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in inputs):
            return self.infer([tensor.detach() for tensor in inputs], context)
        # Outside of the function: what it saves must be its inputs, or second derivatives would miss them.
        ready = (tensor.contiguous() for tensor in inputs)
        applied: Tensor = _Apply.apply(self, tuple(context), *ready)  # type: ignore[no-untyped-call]
        return applied


def is_traced(inputs: Tensors) -> bool:
    """Whether a compiler, an exporter or any other tracer looks on instead of real numbers going through."""
    return (
        torch.compiler.is_compiling()
        or is_in_torch_dispatch_mode()
        or any(type(tensor) not in (Tensor, torch.nn.Parameter) for tensor in inputs)
    )


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operator: Operator, context: tuple[Tensor, ...], *inputs: Tensor) -> Tensor:
        ctx.operator, ctx.context = operator, context
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)
        return operator.forward(inputs, context)

    @staticmethod
    def backward(ctx: Any, *gradients: Maybe) -> tuple[Maybe, ...]:
        (gradient,) = gradients
        nothing = (None,) * len(ctx.saved_tensors)
        wanted = used_gradients(ctx, ctx.needs_input_grad[2:])
        if gradient is None or not any(wanted):
            return (None, None, *nothing)
        inputs, gradient = ctx.saved_tensors, gradient.contiguous()
        if torch.is_grad_enabled():
            results = _Gradient.apply(  # type: ignore[no-untyped-call]
                ctx.operator, ctx.context, wanted, gradient, *inputs
            )
        else:
            results = ctx.operator.backward(gradient, inputs, ctx.context, wanted)
        return (None, None, *results)


class _Gradient(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        operator: Operator,
        context: tuple[Tensor, ...],
        wanted: list[bool],
        gradient: Tensor,
        *inputs: Tensor,
    ) -> tuple[Maybe, ...]:
        ctx.operator, ctx.context = operator, context
        ctx.save_for_backward(gradient, *inputs)
        ctx.set_materialize_grads(False)
        return tuple(operator.backward(gradient, inputs, context, wanted))

    @staticmethod
    def backward(ctx: Any, *cotangents: Maybe) -> tuple[Maybe, ...]:
        gradient, *inputs = ctx.saved_tensors
        operator: Operator = ctx.operator
        needs = ctx.needs_input_grad[3:]
        if all(cotangent is None for cotangent in cotangents):
            return (None,) * (3 + len(needs))
        ready = [None if cotangent is None else cotangent.contiguous() for cotangent in cotangents]
        wanted = used_gradients(ctx, needs)
        if torch.is_grad_enabled():
            results = _Second.apply(  # type: ignore[no-untyped-call]
                operator, ctx.context, wanted, len(ready), *ready, gradient, *inputs
            )
        else:
            results = operator.second(ready, gradient, inputs, ctx.context, wanted)
        return (None, None, None, *results)


class _Second(torch.autograd.Function):
    """Stands in the graph so that a third derivative is refused instead of being silently incomplete."""

    @staticmethod
    def forward(
        _ctx: Any, operator: Operator, context: tuple[Tensor, ...], wanted: list[bool], count: int, *tensors: Maybe
    ) -> tuple[Maybe, ...]:
        cotangents, rest = tensors[:count], [tensor for tensor in tensors[count:] if tensor is not None]
        return tuple(operator.second(cotangents, rest[0], rest[1:], context, wanted))

    @staticmethod
    def backward(_ctx: Any, *_: Maybe) -> tuple[Maybe, ...]:
        raise NotImplementedError(THIRD_DERIVATIVE)


def _find(kind: str, key: str) -> Operator:
    return Operator.registry[kind].from_key(key)


def _present(tensors: Sequence[Maybe], like: Tensor) -> list[Tensor]:
    """Custom operators return tensors only: an empty one stands for None."""
    return [like.new_empty(0) if tensor is None else tensor for tensor in tensors]


def _absent(tensors: Sequence[Tensor], present: Sequence[bool]) -> list[Maybe]:
    return [tensor if there else None for tensor, there in zip(tensors, present, strict=True)]


# Inputs and context go in one list, the first `count` of it being inputs: ahead-of-time compiled code cannot pass empty
# lists of tensors.


@torch.library.custom_op("cliffordstf::forward", mutates_args=())
def _forward(kind: str, key: str, tensors: list[Tensor], count: int) -> Tensor:
    return _find(kind, key).forward([tensor.contiguous() for tensor in tensors[:count]], tensors[count:])


@_forward.register_fake
def _(kind: str, key: str, tensors: list[Tensor], count: int) -> Tensor:
    return tensors[0].new_empty(_find(kind, key).shape(tensors[:count], tensors[count:]))


@torch.library.custom_op("cliffordstf::backward", mutates_args=())
def _backward(
    kind: str, key: str, gradient: Tensor, tensors: list[Tensor], count: int, wanted: list[bool]
) -> list[Tensor]:
    ready = [tensor.contiguous() for tensor in tensors[:count]]
    return _present(_find(kind, key).backward(gradient.contiguous(), ready, tensors[count:], wanted), gradient)


@_backward.register_fake
def _(_kind: str, _key: str, _gradient: Tensor, tensors: list[Tensor], count: int, wanted: list[bool]) -> list[Tensor]:
    pairs = zip(tensors[:count], wanted, strict=True)
    return [t.new_empty(t.shape) if want else t.new_empty(0) for t, want in pairs]


@torch.library.custom_op("cliffordstf::second", mutates_args=())
def _second(
    kind: str,
    key: str,
    cotangents: list[Tensor],
    given: list[bool],
    gradient: Tensor,
    tensors: list[Tensor],
    count: int,
    wanted: list[bool],
) -> list[Tensor]:
    ready = [tensor.contiguous() for tensor in tensors[:count]]
    known = [None if tensor is None else tensor.contiguous() for tensor in _absent(cotangents, given)]
    results = _find(kind, key).second(known, gradient.contiguous(), ready, tensors[count:], wanted)
    # What a zero cotangent does not reach is zero.
    complete = [
        torch.zeros_like(tensor) if result is None and want else result
        for tensor, result, want in zip((gradient, *ready), results, wanted, strict=True)
    ]
    return _present(complete, gradient)


@_second.register_fake
def _(
    _kind: str,
    _key: str,
    _cotangents: list[Tensor],
    _given: list[bool],
    gradient: Tensor,
    tensors: list[Tensor],
    count: int,
    wanted: list[bool],
) -> list[Tensor]:
    pairs = zip((gradient, *tensors[:count]), wanted, strict=True)
    return [t.new_empty(t.shape) if want else t.new_empty(0) for t, want in pairs]


def _save_forward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    ctx.kind, ctx.key, tensors, ctx.count = inputs
    ctx.save_for_backward(*tensors)


def _differentiate_forward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    tensors = list(ctx.saved_tensors)
    wanted = used_gradients(ctx, ctx.needs_input_grad[2])[: ctx.count]
    results = torch.ops.cliffordstf.backward(ctx.kind, ctx.key, gradient, tensors, ctx.count, wanted)
    return None, None, [*_absent(results, wanted), *[None] * (len(tensors) - ctx.count)], None


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:  # noqa: ARG001
    ctx.kind, ctx.key, gradient, tensors, ctx.count, ctx.given = inputs
    ctx.save_for_backward(gradient, *tensors)


def _differentiate_backward(ctx: Any, cotangents: list[Tensor]) -> tuple[Any, ...]:
    gradient, *tensors = ctx.saved_tensors
    wanted = used_gradients(ctx, [ctx.needs_input_grad[2], *ctx.needs_input_grad[3]])[: 1 + ctx.count]
    results = torch.ops.cliffordstf.second(
        ctx.kind, ctx.key, list(cotangents), ctx.given, gradient, tensors, ctx.count, wanted
    )
    first, *rest = _absent(results, wanted)
    return None, None, first, [*rest, *[None] * (len(tensors) - ctx.count)], None, None


_forward.register_autograd(_differentiate_forward, setup_context=_save_forward)
_backward.register_autograd(_differentiate_backward, setup_context=_save_backward)
