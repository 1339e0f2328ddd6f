"""Linear maps over channels, track by track, on the compiled kernels."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from cliffordstf.kernels.native.kernel import padded, padded_channels
from cliffordstf.kernels.native.library import Library, LinearArgs, library, pointer, threads_for
from cliffordstf.kernels.operator import Maybe, Operator, Tensors
from cliffordstf.kernels.plan import LinearPlan


class TrackLinearSum(Operator):
    """Σ over terms of scale · x W: inputs x (atoms, components, in), W (tracks, in, out) of every term in turn."""

    kind = "track_linear"
    plan_type = LinearPlan
    plan: LinearPlan

    def __init__(self, plan: LinearPlan) -> None:
        super().__init__(plan)
        self.roles = ("feature", "parameter") * len(plan.terms)
        self._tracks = [np.array(term.tracks, dtype=np.int32).reshape(-1, 4) for term in plan.terms]
        self._addresses = [tracks.ctypes.data for tracks in self._tracks]
        self._components = [int(tracks[:, 2].sum()) for tracks in self._tracks]

    @override
    def shape(self, inputs: Tensors, context: Tensors) -> tuple[int, ...]:
        return (inputs[0].shape[0], self.plan.target_dims, inputs[1].shape[2])

    @override
    def forward(self, inputs: Tensors, context: Tensors) -> Tensor:
        terms = [(index, inputs[2 * index], inputs[2 * index + 1]) for index in range(len(self.plan.terms))]
        return self._sum(terms, inputs[0].shape[0], inputs[1].shape[2])

    @override
    def backward(self, gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]) -> list[Maybe]:
        return self._gradients(gradient, inputs, wanted, inputs)

    @override
    def second(
        self,
        cotangents: Sequence[Maybe],
        gradient: Tensor,
        inputs: Tensors,
        context: Tensors,
        wanted: Sequence[bool],
    ) -> list[Maybe]:
        # Bilinear in x and W: the cotangents take the place of x, then that of W.
        terms = []
        for index in range(len(self.plan.terms)):
            x, w = inputs[2 * index : 2 * index + 2]
            ux, uw = cotangents[2 * index : 2 * index + 2]
            if ux is not None:
                terms.append((index, ux, w))
            if uw is not None:
                terms.append((index, x, uw))
        out = self._sum(terms, gradient.shape[0], gradient.shape[2])
        return [out, *self._gradients(gradient, inputs, wanted[1:], cotangents)]

    def _sum(self, terms: Sequence[tuple[int, Tensor, Tensor]], atoms: int, channels: int) -> Tensor:
        like = terms[0][1]
        width = padded_channels(channels, like.dtype)
        # Zeros, because terms are added to it and need not reach every track.
        out = like.new_zeros(atoms, self.plan.target_dims, width)
        args, keep = (LinearArgs * len(terms))(), []
        for arg, (index, x, w) in zip(args, terms, strict=True):
            weights = padded(w, width)
            keep.append(weights)
            self._describe(arg, index, x.shape[2], width, atoms)
            arg.x, arg.w, arg.y = pointer(x), pointer(weights), pointer(out)
        _kernels(like.dtype).call_linear("forward", args)
        return out if width == channels else out[..., :channels].contiguous()

    def _gradients(
        self, gradient: Tensor, inputs: Tensors, wanted: Sequence[bool], operands: Sequence[Maybe]
    ) -> list[Maybe]:
        """Gradients of Σ x W with respect to the inputs, where `operands` stand for x and W themselves."""
        results: list[Maybe] = []
        args, keep = (LinearArgs * len(self.plan.terms))(), []
        outputs = padded_channels(gradient.shape[2], gradient.dtype)
        g = padded(gradient, outputs)
        for index, arg in enumerate(args):
            x, w = inputs[2 * index : 2 * index + 2]
            other_x, other_w = operands[2 * index : 2 * index + 2]
            want_x, want_w = wanted[2 * index : 2 * index + 2]
            width = padded_channels(x.shape[2], x.dtype)
            ready = [padded(other_x, width), _padded_matrices(other_w, width, outputs)]
            keep.append(ready)
            dx = x.new_zeros(*x.shape[:2], width) if want_x and other_w is not None else None
            dw = w.new_empty(w.shape[0], width, outputs) if want_w and other_x is not None else None
            self._describe(arg, index, width, outputs, x.shape[0])
            arg.g, arg.x, arg.w, arg.dx, arg.dw = (pointer(tensor) for tensor in (g, *ready, dx, dw))
            results += [dx, dw]
        _kernels(gradient.dtype).call_linear("backward", args)
        return [_cut(result, tensor) for result, tensor in zip(results, inputs, strict=True)]

    def _describe(self, args: LinearArgs, index: int, inputs: int, outputs: int, atoms: int) -> None:
        args.tracks, args.track, args.atoms = len(self._tracks[index]), self._addresses[index], atoms
        args.source, args.target = self.plan.terms[index].source_dims, self.plan.target_dims
        args.inputs, args.outputs, args.scale = inputs, outputs, self.plan.scale
        args.threads = threads_for(atoms * self._components[index] * inputs * outputs)


def _padded_matrices(matrices: Maybe, inputs: int, outputs: int) -> Maybe:
    """With zeros in new rows and columns up to whole vectors."""
    if matrices is None or matrices.shape[1:] == (inputs, outputs):
        return matrices
    return torch.nn.functional.pad(matrices, (0, outputs - matrices.shape[2], 0, inputs - matrices.shape[1]))


def _cut(result: Maybe, like: Tensor) -> Maybe:
    """Without the padding."""
    if result is None or result.shape == like.shape:
        return result
    return result[:, : like.shape[1], : like.shape[2]].contiguous()


def _kernels(dtype: torch.dtype) -> Library:
    kernels = library(dtype)
    assert kernels is not None
    return kernels
