"""What the two operators share: tensors by the names that the form gives them, kernels kept by what they compute."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor

from cliffordstf.kernels.gpu.code import Channels
from cliffordstf.kernels.gpu.form import Derivative, Form
from cliffordstf.kernels.gpu.program import Kernel
from cliffordstf.kernels.operator import Maybe, Operator, Tensors

Builder: TypeAlias = Callable[..., Kernel]
Named: TypeAlias = dict[str, Tensor]


class FormOperator(Operator):
    """An operator that is a trilinear form.

    Attributes:
        operands: Name in the form of each input.
    """

    operands: ClassVar[tuple[str, str, str]]

    def __init__(self, plan: Any, form: Form) -> None:
        super().__init__(plan)
        self.form = form
        self._kernels: dict[tuple[Any, ...], Kernel] = {}

    def shape(self, inputs: Tensors, context: Tensors) -> tuple[int, ...]:  # noqa: ARG002
        """(atoms, components, channels)."""
        return (inputs[0].shape[0], self.form.out, inputs[0].shape[2])

    def compute(self, derivative: Derivative, tensors: Named, context: Tensors) -> Named:
        """The results of a derivative none of whose results vanish."""
        raise NotImplementedError

    def forward(self, inputs: Tensors, context: Tensors) -> Tensor:
        """The result of the form."""
        tensors = dict(zip(self.operands, inputs, strict=True))
        return self.compute(Derivative(0, (), ("out",)), tensors, context)["out"]

    def backward(self, gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]) -> list[Maybe]:
        """Its first derivatives."""
        tensors = {"g": gradient, **dict(zip(self.operands, inputs, strict=True))}
        results = self._gradients(wanted)
        made = self.compute(Derivative(1, (), results), tensors, context) if results else {}
        return [made.get(f"d{name}") for name in self.operands]

    def second(
        self,
        cotangents: Sequence[Maybe],
        gradient: Tensor,
        inputs: Tensors,
        context: Tensors,
        wanted: Sequence[bool],
    ) -> list[Maybe]:
        """Its second derivatives; the one with respect to the gradient comes first, wanted or not."""
        tensors = {"g": gradient, **dict(zip(self.operands, inputs, strict=True))}
        present = {name: given for name, given in zip(self.operands, cotangents, strict=True) if given is not None}
        tensors |= {f"u{name}": cotangent for name, cotangent in present.items()}
        derivative = Derivative(2, tuple(present), ("out", *self._gradients(wanted[1:])))
        made = {
            name: torch.zeros_like(gradient if name == "out" else tensors[name[1:]]) for name in derivative.vanishing
        }
        if derivative.computed.results:
            made |= self.compute(derivative.computed, tensors, context)
        return [made["out"], *(made.get(f"d{name}") for name in self.operands)]

    def kernel(self, build: Builder, derivative: Derivative, channels: int, *options: bool) -> Kernel:
        """The kernel that `build` makes for a derivative, made once."""
        key = (build, derivative, channels, *options)
        if key not in self._kernels:
            self._kernels[key] = build(self.form, derivative, Channels(channels), *options)
        return self._kernels[key]

    def _gradients(self, wanted: Sequence[bool]) -> tuple[str, ...]:
        return tuple(f"d{name}" for name, want in zip(self.operands, wanted, strict=True) if want)
