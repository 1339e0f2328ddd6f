"""What the compiled multilinear operators share: operands, cotangents and results passed by name."""

import math
from collections.abc import Sequence
from typing import ClassVar, overload

import torch
from torch import Tensor
from typing_extensions import override

from cliffordstf.kernels.native.library import Args, library, pointer
from cliffordstf.kernels.operator import Maybe, Operator, Tensors


class MultilinearKernel(Operator):
    """An operator that is linear in each of its operands.

    The kernel's arguments hold operand `x` as `x`, the cotangent of its gradient as `ux`, its gradient as `dx`; the
    output is `out`, its gradient `g`.

    Attributes:
        family: First part of the kernels' names.
        operands: Name of each input and whether it has channels as last axis.
    """

    family: ClassVar[str]
    operands: ClassVar[tuple[tuple[str, bool], ...]]

    def arguments(self, inputs: Tensors, context: Tensors, width: int) -> Args:
        """Everything but operands and results, for channels padded to `width`."""
        raise NotImplementedError

    @override
    def forward(self, inputs: Tensors, context: Tensors) -> Tensor:
        return _cut(self._whole(inputs, context), inputs[0].shape[-1])

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
        return self._whole([first, *rest], context)[..., :channels]

    def _whole(self, inputs: Tensors, context: Tensors) -> Tensor:
        """The output, with channels up to whole vectors."""
        width = padded_channels(inputs[0].shape[-1], inputs[0].dtype)
        args = self.arguments(inputs, context, width)
        keep = self._set(args, "", inputs, width)
        out = inputs[0].new_empty(*self.shape(inputs, context)[:-1], width)
        args.out = out.data_ptr()
        self._run("forward", out, args)
        del keep
        return out

    @override
    def backward(self, gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]) -> list[Maybe]:
        width = padded_channels(inputs[0].shape[-1], inputs[0].dtype)
        args = self.arguments(inputs, context, width)
        keep = [padded(gradient, width), *self._set(args, "", inputs, width)]
        args.g = pointer(keep[0])
        results = self._results(args, inputs, width, wanted)
        self._run("backward", gradient, args)
        return [_cut(result, tensor.shape[-1]) for result, tensor in zip(results, inputs, strict=True)]

    @override
    def second(
        self,
        cotangents: Sequence[Maybe],
        gradient: Tensor,
        inputs: Tensors,
        context: Tensors,
        wanted: Sequence[bool],
    ) -> list[Maybe]:
        width = padded_channels(inputs[0].shape[-1], inputs[0].dtype)
        args = self.arguments(inputs, context, width)
        keep = [padded(gradient, width), *self._set(args, "", inputs, width), *self._set(args, "u", cotangents, width)]
        out = gradient.new_empty(*gradient.shape[:-1], width)
        args.g, args.out = pointer(keep[0]), out.data_ptr()
        results = self._results(args, inputs, width, wanted[1:])
        self._run("second", gradient, args)
        found = (_cut(result, tensor.shape[-1]) for result, tensor in zip(results, inputs, strict=True))
        return [_cut(out, gradient.shape[-1]), *found]

    def _set(self, args: Args, prefix: str, tensors: Sequence[Maybe], width: int) -> list[Maybe]:
        """Hand over tensors by address; the caller must keep what comes back alive until the kernel is done."""
        keep = []
        for (name, has_channels), tensor in zip(self.operands, tensors, strict=True):
            ready = padded(tensor, width) if has_channels else tensor
            setattr(args, prefix + name, pointer(ready))
            keep.append(ready)
        return keep

    def _results(self, args: Args, inputs: Tensors, width: int, wanted: Sequence[bool]) -> list[Maybe]:
        """New tensors that the kernel writes gradients to."""
        results: list[Maybe] = []
        for (name, has_channels), tensor, want in zip(self.operands, inputs, wanted, strict=True):
            shape = (*tensor.shape[:-1], width) if has_channels else tensor.shape
            results.append(tensor.new_empty(shape) if want else None)
            setattr(args, "d" + name, pointer(results[-1]))
        return results

    def _run(self, name: str, like: Tensor, args: Args) -> None:
        kernels = library(like.dtype)
        assert kernels is not None
        kernels.call(f"{self.family}_{name}", args)


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


@overload
def _cut(tensor: Tensor, channels: int) -> Tensor: ...
@overload
def _cut(tensor: None, channels: int) -> None: ...
def _cut(tensor: Maybe, channels: int) -> Maybe:
    """Without the padding."""
    if tensor is None or tensor.shape[-1] == channels:
        return tensor
    return tensor[..., :channels].contiguous()
