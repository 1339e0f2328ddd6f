"""What the compiled multilinear operators share: operands, cotangents and results passed by name."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from cliffordstf.graph import EdgeCounts
from cliffordstf.kernels.native.library import Args, Call, library, pointer
from cliffordstf.kernels.operator import Maybe, Operator, Tensors
from cliffordstf.kernels.replay import add, do


class MultilinearKernel(Operator):
    """An operator that is linear in each of its operands.

    The kernel's arguments hold operand `x` as `x`, the cotangent of its gradient as `ux`, its gradient as `dx`; the
    output is `out`, its gradient `g`.

    Attributes:
        family: First part of the kernels' names.
        operands: Name of each input and whether it has channels as last axis.
        sums: Operands whose gradient `x` the kernel can add to what is there, if told so by `add_x`.
    """

    family: ClassVar[str]
    operands: ClassVar[tuple[tuple[str, bool], ...]]
    sums: ClassVar[tuple[str, ...]] = ()

    def arguments(self, inputs: Tensors, context: Tensors, width: int) -> Args:
        """Everything but operands and results, for channels padded to `width`."""
        raise NotImplementedError

    def resize(self, args: Any, counts: EdgeCounts) -> None:
        """Set the arguments that depend on how many atoms and edges there are."""
        raise NotImplementedError

    @override
    def forward(self, inputs: Tensors, context: Tensors) -> Tensor:
        call, out = self.prepare_forward(inputs, context)
        do(call)
        return _cut(out, inputs[0].shape[-1])

    @override
    def infer(self, inputs: Tensors, context: Tensors) -> Tensor:
        channels = inputs[0].shape[-1]
        width = padded_channels(channels, inputs[0].dtype)
        ready = []
        for (_, has_channels), x in zip(self.operands, inputs, strict=True):
            whole = uncut(x) if has_channels and channels < width else None
            ready.append(x.contiguous() if whole is None else whole)
        # The first operand says how wide all are; a feature that is multiplied by itself is padded once.
        first = padded(ready[0], width)
        assert first is not None
        rest = [first if _is_same(other, ready[0]) else other for other in ready[1:]]
        call, out = self.prepare_forward([first, *rest], context)
        call()
        return out[..., :channels]

    def prepare_forward(self, inputs: Tensors, context: Tensors) -> tuple[Call, Tensor]:
        """The kernel and where its result will be, with channels up to whole vectors."""
        width = padded_channels(inputs[0].shape[-1], inputs[0].dtype)
        args = self.arguments(inputs, context, width)
        keep = self._set(args, "", inputs, width)
        out = inputs[0].new_empty(*self.shape(inputs, context)[:-1], width)
        args.out = out.data_ptr()
        return self._call("forward", out, args, (keep, context)), out

    @override
    def backward(self, gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]) -> list[Maybe]:
        call, results = self.prepare_backward(gradient, inputs, context, wanted)
        do(call)
        return self._finished(results, inputs, None)

    @override
    def add_backward(
        self, totals: Sequence[Maybe], gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]
    ) -> list[Maybe]:
        call, results = self.prepare_backward(gradient, inputs, context, wanted, totals)
        do(call)
        return self._finished(results, inputs, totals)

    def prepare_backward(
        self,
        gradient: Tensor,
        inputs: Tensors,
        context: Tensors,
        wanted: Sequence[bool],
        totals: Sequence[Maybe] | None = None,
    ) -> tuple[Call, list[Maybe]]:
        """The kernel and where the gradients will be, with channels up to whole vectors."""
        width = padded_channels(inputs[0].shape[-1], inputs[0].dtype)
        args = self.arguments(inputs, context, width)
        g = padded(gradient, width)
        args.g = pointer(g)
        keep = self._set(args, "", inputs, width)
        results = self._results(args, inputs, width, wanted, totals)
        return self._call("backward", gradient, args, (g, keep, results, context)), results

    @override
    def second(
        self,
        cotangents: Sequence[Maybe],
        gradient: Tensor,
        inputs: Tensors,
        context: Tensors,
        wanted: Sequence[bool],
    ) -> list[Maybe]:
        return self._second(None, cotangents, gradient, inputs, context, wanted)

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
        return self._second(totals, cotangents, gradient, inputs, context, wanted)

    def _second(
        self,
        totals: Sequence[Maybe] | None,
        cotangents: Sequence[Maybe],
        gradient: Tensor,
        inputs: Tensors,
        context: Tensors,
        wanted: Sequence[bool],
    ) -> list[Maybe]:
        width = padded_channels(inputs[0].shape[-1], inputs[0].dtype)
        args = self.arguments(inputs, context, width)
        g, out = padded(gradient, width), gradient.new_empty(*gradient.shape[:-1], width)
        args.g, args.out = pointer(g), out.data_ptr()
        keep = [*self._set(args, "", inputs, width), *self._set(args, "u", cotangents, width)]
        results = self._results(args, inputs, width, wanted[1:], totals)
        do(self._call("second", gradient, args, (g, keep, out, results, context)))
        return [_cut(out, gradient.shape[-1]), *self._finished(results, inputs, totals)]

    def _set(self, args: Args, prefix: str, tensors: Sequence[Maybe], width: int) -> list[Maybe]:
        """Hand over tensors by address; the caller must keep what comes back alive until the kernel is done."""
        keep = []
        for (name, has_channels), tensor in zip(self.operands, tensors, strict=True):
            ready = padded(tensor, width) if has_channels else tensor
            setattr(args, prefix + name, pointer(ready))
            keep.append(ready)
        return keep

    def _results(
        self, args: Args, inputs: Tensors, width: int, wanted: Sequence[bool], totals: Sequence[Maybe] | None
    ) -> list[Maybe]:
        """Where the kernel writes gradients: with totals, to these if it can add to them; else to new tensors."""
        results: list[Maybe] = []
        for index, ((name, has_channels), tensor, want) in enumerate(zip(self.operands, inputs, wanted, strict=True)):
            shape = (*tensor.shape[:-1], width) if has_channels else tensor.shape
            there = self._there(index, inputs, results, totals)
            adds = there is not None and there.shape == shape
            place = None if not want else there if adds else tensor.new_empty(shape)
            results.append(place)
            setattr(args, "d" + name, pointer(place))
            if name in self.sums:
                setattr(args, "add_" + name, int(adds))
        return results

    def _there(self, index: int, inputs: Tensors, results: list[Maybe], totals: Sequence[Maybe] | None) -> Maybe:
        """What the kernel may add a gradient to; a tensor that is two operands has one sum."""
        if totals is None or self.operands[index][0] not in self.sums:
            return None
        twins = (i for i in range(index) if inputs[i] is inputs[index])
        return next((results[i] for i in twins if results[i] is not None), totals[index])

    def _finished(self, results: list[Maybe], inputs: Tensors, totals: Sequence[Maybe] | None) -> list[Maybe]:
        found: list[Maybe] = []
        for index, (result, tensor) in enumerate(zip(results, inputs, strict=True)):
            total = None if totals is None else totals[index]
            if result is None or any(result is earlier for earlier in results[:index]):
                found.append(total)
            elif result is total or total is None:
                found.append(_cut(result, tensor.shape[-1]))
            else:
                found.append(add(total, _cut(result, tensor.shape[-1])))
        return found

    def _call(self, name: str, like: Tensor, args: Args, keep: object) -> Call:
        kernels = library(like.dtype)
        assert kernels is not None
        return kernels.prepared(f"{self.family}_{name}", args, keep, partial(self.resize, args))


def padded_channels(channels: int, dtype: torch.dtype) -> int:
    """Channels, rounded up to whole vectors."""
    kernels = library(dtype)
    assert kernels is not None
    return -(-channels // kernels.lanes) * kernels.lanes


def padded(tensor: Maybe, width: int) -> Maybe:
    """With zeros behind the channels up to a whole number of vectors."""
    if tensor is None or tensor.shape[-1] == width:
        return tensor
    # Not `pad`, which writes zeros everywhere before it copies.
    channels = tensor.shape[-1]
    result = tensor.new_empty(*tensor.shape[:-1], width)
    result[..., :channels] = tensor
    result[..., channels:] = 0
    return result


def uncut(tensor: Tensor) -> Tensor | None:
    """The whole result of a kernel, of which this is the part without padding; None if it is something else."""
    width = padded_channels(tensor.shape[-1], tensor.dtype)
    shape = (*tensor.shape[:-1], width)
    strides = [width] * (len(shape) - 1) + [1]
    for axis in range(len(shape) - 3, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    start = tensor.storage_offset()
    room = tensor.untyped_storage().nbytes() // tensor.element_size() - start
    if tensor.stride() != tuple(strides) or start % width or room < math.prod(shape):
        return None
    return tensor.as_strided(shape, strides)


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()


def _cut(tensor: Tensor, channels: int) -> Tensor:
    """Without the padding."""
    return tensor if tensor.shape[-1] == channels else tensor[..., :channels].contiguous()
