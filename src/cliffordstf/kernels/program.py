"""Several operators as one node of autograd's graph.

Autograd gives every operator a gradient tensor of its own and adds them where a tensor has several readers, one pass
over memory each. A recorded program knows all readers: their kernels add to one sum.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cliffordstf.kernels.operator import THIRD_DERIVATIVE, Maybe, Operator, Tensors, recorder
from cliffordstf.kernels.replay import add

Mask = Sequence[bool]


class Step:
    """An operator with the places of its inputs and of its output among the values of a program."""

    def __init__(self, operator: Operator, inputs: tuple[int, ...], output: int, context: tuple[Tensor, ...]) -> None:
        self.operator, self.inputs, self.output, self.context = operator, inputs, output, context

    def pick(self, values: Sequence[Any]) -> list[Any]:
        """Those that belong to the inputs."""
        return [values[place] for place in self.inputs]


class Program:
    """Steps in the order in which they ran.

    Attributes:
        given, made: Places of the values that came from outside and of those that a step made.
        shown: Places of the made values that are seen outside, whose gradients belong to others.
        originals: The given values themselves, kept alive, or another tensor might get their identity.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.given: list[int] = []
        self.made: list[int] = []
        self.shown: set[int] = set()
        self.originals: list[Tensor] = []
        self._values: list[Tensor] = []
        self._places: dict[int, int] = {}

    def run(self, operator: Operator, inputs: Tensors, context: Tensors) -> Tensor:
        """Run an operator and write it down; the result is a value of this program, without a graph of its own."""
        places = tuple(self._place(tensor) for tensor in inputs)
        output = operator.forward([self._values[place].detach() for place in places], context)
        self.made.append(self._add(output))
        self.steps.append(Step(operator, places, self.made[-1], tuple(context)))
        return output

    def finish(self, results: Tensors) -> list[Tensor]:
        """The results, as outputs of one node of the graph. The program forgets the values: the node keeps them."""
        shown = [self.place(result) for result in results]
        self.shown = set(shown)
        values, self._values, self._places, self.originals = self._values, [], {}, []
        given, made = [values[place] for place in self.given], [values[place] for place in self.made]
        outputs = dict(zip(self.made, _Run.apply(self, made, *given), strict=True))  # type: ignore[no-untyped-call]
        return [outputs[place] for place in shown]

    @property
    def values(self) -> list[Tensor]:
        """All values, by place, while the program is not finished."""
        return self._values

    def place(self, tensor: Tensor) -> int:
        """Where a tensor is that was given, or that a step made."""
        return self._places[id(tensor)]

    def _place(self, tensor: Tensor) -> int:
        if id(tensor) not in self._places:
            ready = tensor.contiguous()
            self.given.append(self._add(ready))
            self._places[id(tensor)] = self.given[-1]
            self.originals.append(tensor)
        return self._places[id(tensor)]

    def _add(self, tensor: Tensor) -> int:
        self._values.append(tensor)
        self._places[id(tensor)] = len(self._values) - 1
        return self._places[id(tensor)]

    def arrange(self, of_given: Sequence[Any], of_made: Sequence[Any]) -> list[Any]:
        """One list by place."""
        found: list[Any] = [None] * (len(self.given) + len(self.made))
        for places, items in ((self.given, of_given), (self.made, of_made)):
            for place, item in zip(places, items, strict=True):
                found[place] = item
        return found

    def masks(self, of_given: Mask, promised: bool = True) -> list[list[bool]]:
        """Which gradients every step has to find, from which of the given values need one.

        Args:
            of_given: Whether each of the given values does.
            promised: Leave out what `differentiate` promised that nobody will read.
        """
        needs = self.arrange(of_given, [False] * len(self.made))
        found = []
        for step in self.steps:
            mask = step.pick(needs)
            found.append(step.operator.mask(mask) if promised else mask)
            needs[step.output] = any(found[-1])
        return found

    def backward(
        self,
        gradients: Sequence[Maybe],
        values: Tensors,
        masks: Sequence[Mask],
        of_given: Sequence[Maybe] | None = None,
    ) -> list[Maybe]:
        """Gradients of all values, by place, from those of the made values that came from outside.

        The gradients of values that are not shown can only come from `second`; they are added to in place, and so are
        those of given values if there are any to start with.
        """
        start = [None] * len(self.given) if of_given is None else of_given
        sums = self.arrange(start, [None if g is None else g.contiguous() for g in gradients])
        for step, mask in zip(reversed(self.steps), reversed(masks), strict=True):
            gradient = sums[step.output]
            if gradient is None or not any(mask):
                continue
            totals = self._own(step, sums)
            found = step.operator.add_backward(totals, gradient, step.pick(values), step.context, mask)
            _merge(step, sums, found)
        return sums

    def second(
        self,
        cotangents: Sequence[Maybe],
        gradients: Sequence[Maybe],
        values: Tensors,
        done: Sequence[Mask],
        masks: Sequence[Mask],
    ) -> tuple[list[Maybe], list[Maybe]]:
        """The way back through `backward`.

        Args:
            cotangents: Of the gradients of the given values.
            gradients: Of all values, by place, as `backward` left them.
            values: By place.
            done: What `backward` was asked for.
            masks: Which gradients are wanted now.

        Returns:
            By place, the cotangents of all gradients and the gradients of all values.
        """
        turned = self.arrange([None if u is None else u.contiguous() for u in cotangents], [None] * len(self.made))
        sums: list[Maybe] = [None] * len(values)
        for step, was_wanted, mask in zip(self.steps, done, masks, strict=True):
            gradient = gradients[step.output]
            known = [u if want else None for u, want in zip(step.pick(turned), was_wanted, strict=True)]
            if gradient is None or all(u is None for u in known):
                continue
            turned[step.output], *found = step.operator.add_second(
                _first_places(step, sums), known, gradient, step.pick(values), step.context, [True, *mask]
            )
            _merge(step, sums, found)
        return turned, sums

    def _own(self, step: Step, sums: list[Maybe]) -> list[Maybe]:
        """The sums so far that a step may add to; what came from outside is copied before."""
        for place in step.inputs:
            value = sums[place]
            if place in self.shown and value is not None:
                sums[place] = value.clone()
        return _first_places(step, sums)


def _first_places(step: Step, sums: Sequence[Maybe]) -> list[Maybe]:
    """The sums of the inputs; where one value is two inputs, only the first has it."""
    return [sums[place] if place not in step.inputs[:index] else None for index, place in enumerate(step.inputs)]


def _merge(step: Step, sums: list[Maybe], found: Sequence[Maybe]) -> None:
    for index, (place, result) in enumerate(zip(step.inputs, found, strict=True)):
        total = sums[place]
        if result is None:
            continue
        if place in step.inputs[:index] and total is not None:
            add(total, result)
        else:
            sums[place] = result


class _Run(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, program: Program, made: list[Tensor], *given: Tensor) -> tuple[Tensor, ...]:
        ctx.program = program
        ctx.save_for_backward(*given, *made)
        ctx.set_materialize_grads(False)
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *gradients: Maybe) -> tuple[Maybe, ...]:
        program: Program = ctx.program
        masks, count = program.masks(ctx.needs_input_grad[2:]), len(program.given)
        if all(gradient is None for gradient in gradients) or not any(any(mask) for mask in masks):
            return (None,) * (2 + count)
        if torch.is_grad_enabled():
            results = _Gradient.apply(program, masks, *gradients, *ctx.saved_tensors)  # type: ignore[no-untyped-call]
            return (None, None, *results)
        saved = ctx.saved_tensors
        sums = program.backward(gradients, program.arrange(saved[:count], saved[count:]), masks)
        return (None, None, *(sums[place] for place in program.given))


class _Gradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, program: Program, masks: list[Mask], *tensors: Maybe) -> tuple[Maybe, ...]:
        made, given = len(program.made), len(program.given)
        gradients, values = tensors[:made], program.arrange(tensors[made : made + given], tensors[made + given :])
        sums = program.backward(gradients, values, masks)
        ctx.program, ctx.masks, ctx.is_given = program, masks, [gradient is not None for gradient in gradients]
        ctx.save_for_backward(*values, *(sums[place] for place in program.made))
        ctx.set_materialize_grads(False)
        return tuple(sums[place] for place in program.given)

    @staticmethod
    def backward(ctx: Any, *cotangents: Maybe) -> tuple[Maybe, ...]:
        program: Program = ctx.program
        made, given = len(program.made), len(program.given)
        if all(cotangent is None for cotangent in cotangents):
            return (None,) * (2 + 2 * made + given)
        masks = program.masks(ctx.needs_input_grad[2 + made : 2 + made + given])
        second = _Second.apply if torch.is_grad_enabled() else partial(_Second.forward, None)
        found = second(program, (ctx.masks, masks), *cotangents, *ctx.saved_tensors)
        turned, sums = found[: made + given], found[made + given :]
        shown = zip(program.made, ctx.is_given, strict=True)
        of_gradients = (turned[place] if is_given else None for place, is_given in shown)
        return (None, None, *of_gradients, *(sums[place] for place in (*program.given, *program.made)))


class _Second(torch.autograd.Function):
    """Stands in the graph so that a third derivative is refused instead of being silently incomplete."""

    @staticmethod
    def forward(_ctx: Any, program: Program, masks: Sequence[Sequence[Mask]], *tensors: Maybe) -> tuple[Maybe, ...]:
        """From cotangents of the given values, all values and the gradients of made ones, by place."""
        made, given = len(program.made), len(program.given)
        cotangents, values, gradients = tensors[:given], tensors[given : 2 * given + made], tensors[2 * given + made :]
        by_place = program.arrange([None] * given, gradients)
        turned, sums = program.second(cotangents, by_place, [value for value in values if value is not None], *masks)
        return (*turned, *sums)

    @staticmethod
    def backward(_ctx: Any, *_: Maybe) -> tuple[Maybe, ...]:
        raise NotImplementedError(THIRD_DERIVATIVE)


def record(function: Callable[[], Sequence[Tensor]]) -> list[Tensor]:
    """Call a function that applies operators and nothing else; its results are outputs of one node of the graph."""
    program = Program()
    with recorder.of(program):
        results = function()
    return program.finish(results)
