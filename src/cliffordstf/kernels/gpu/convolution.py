"""The edge operator in the frames of the edges: weights are made in the kernels, and never stored.

What is allocated for a pair, that is for two edges, while a call runs: its frame, `frame_size(lmax)` values; for
gradients of radial functions and directions, sums over each block of 32 channels beside the results. In single
precision, at degree 3 with 96 channels and 16 radial functions, these are 200 + 228 bytes (264 at order 2), half of
that an edge. Weights of an edge are numbers in registers, made wherever they are needed.

No GPU was at hand: the kernels were tested in Triton's interpreter, compiled for one, and never timed. What is written
here about registers comes from ptxas, for compute capability 8.0; the rest is reasoning.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels.gpu.frames import FramePlan, Number, frame_size
from cliffordstf.kernels.gpu.gather import gather_kernel
from cliffordstf.kernels.gpu.mirror import PAIRS, mirror_kernel
from cliffordstf.kernels.gpu.pairs import direction_kernel, edges_of_directions, mixing_kernel, radial_kernel
from cliffordstf.kernels.gpu.program import Kernel
from cliffordstf.kernels.gpu.tile import Sizes
from cliffordstf.kernels.operator import Maybe, Operator, Tensors
from cliffordstf.kernels.plan import EdgePlan

CHUNKS = 512
"""Most partial sums over pairs of a gradient of the mixing matrix: enough to fill a large GPU."""

PAIRS_OF_CHUNK = 8
"""Least pairs of a partial sum."""

MOST_SUMS = 96
"""Elements of the mixing matrix's gradient that a program sums for its channels: each is a register of every thread.

With what leads to them ptxas makes it 168 registers at order 1, and 254 at order 2, at degree 3 in single precision.
"""

Values: TypeAlias = dict[str, Tensor | int]


class EdgeConvolution(Operator):
    """Weights made in the kernel, w = phi U, and tensors of directions too; the context is an `EdgeIndex`.

    h (atoms, source, channels), phi (pairs, radial), U (radial, rows, channels), n (pairs, 3). Gradients with respect
    to directions are those along the sphere. Every sum is taken in a fixed order.
    """

    kind = "triton_edge_convolution"
    plan_type = EdgePlan
    plan: EdgePlan
    operands = ("h", "phi", "U", "n")

    def __init__(self, plan: EdgePlan) -> None:
        super().__init__(plan)
        self.frames = FramePlan.of(plan)
        self._kernels: dict[tuple[Any, ...], Kernel] = {}
        self._folds: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    def shape(self, inputs: Tensors, context: Tensors) -> tuple[int, ...]:  # noqa: ARG002
        """(atoms, target components, channels)."""
        return (inputs[0].shape[0], self.plan.target_dims, inputs[0].shape[2])

    def forward(self, inputs: Tensors, context: Tensors) -> Tensor:
        """The sums at the receivers."""
        return _Call(self, inputs, context).gathered(0, backward=False)

    def backward(self, gradient: Tensor, inputs: Tensors, context: Tensors, wanted: Sequence[bool]) -> list[Maybe]:
        """The first derivatives."""
        call = _Call(self, inputs, context, {"g": gradient})
        return call.gradients(1, wanted)

    def second(
        self,
        cotangents: Sequence[Maybe],
        gradient: Tensor,
        inputs: Tensors,
        context: Tensors,
        wanted: Sequence[bool],
    ) -> list[Maybe]:
        """The second derivatives."""
        present = {f"u{name}": u for name, u in zip(self.operands, cotangents, strict=True) if u is not None}
        call = _Call(self, inputs, context, {"g": gradient, **present})
        first = call.gathered(2, backward=False) if wanted[0] else None
        return [first, *call.gradients(2, wanted[1:])]

    def kernel(self, build: Callable[..., Kernel], *options: Any) -> Kernel:
        """The kernel that `build` makes of the plan, made once."""
        key = (build, *options)
        if key not in self._kernels:
            self._kernels[key] = build(self.frames, *options)
        return self._kernels[key]

    def frame_kernel(self) -> Kernel:
        """The kernel that makes the frames of pairs."""
        return self.kernel(_mirrors)

    @torch.inference_mode(False)
    def fold(self, like: Tensor) -> Tensor:
        """Numbers from rows of the weights, (numbers, rows)."""
        key = (like.dtype, like.device)
        if key not in self._folds:
            self._folds[key] = torch.as_tensor(self.frames.fold, dtype=like.dtype, device=like.device)
        return self._folds[key]


def _mirrors(plan: FramePlan) -> Kernel:
    return mirror_kernel(plan.lmax)


class _Call:
    """One evaluation: sizes, and tensors by the names of the kernels' arguments.

    Args:
        operator: What is evaluated.
        inputs: h, phi, U and n.
        context: An `EdgeIndex`.
        others: The gradient `g` and cotangents, `u` before the name of an input.
    """

    def __init__(
        self, operator: EdgeConvolution, inputs: Tensors, context: Tensors, others: dict[str, Tensor] | None = None
    ) -> None:
        others = others or {}
        self.operator, self.index = operator, EdgeIndex(*context)
        self.h, self.phi, self.U, self.n = inputs
        channels, radial = self.h.shape[2], self.phi.shape[1]
        self.sizes = Sizes(channels, radial, operator.frames.lmax, str(self.h.dtype).removeprefix("torch."))
        self.given = frozenset(name for name in operator.operands if f"u{name}" in others)
        self.pairs = len(self.n)
        index = self.index
        self.values: Values = {
            **{name: tensor for name, tensor in others.items() if name in ("g", "uh")},
            **{f"{name}_of": tensor for name, tensor in others.items() if name in ("uphi", "un")},
            **{"h": self.h, "phi_of": self.phi, "U_of": self._folded(self.U), "n": self.n, "count": self.pairs},
            **{"row_pointers": index.row_pointers, "senders": index.senders, "receivers": index.receivers},
            **{"pair_numbers": index.pair, "turned": index.turned, "pair_edges": index.pair_edges},
        }
        if "U" in self.given:
            self.values["uU_of"] = self._folded(others["uU"])
        self.values["frames"] = self.n.new_empty(self.pairs, frame_size(operator.frames.lmax))
        operator.frame_kernel().launch(-(-self.pairs // PAIRS), self.values, self.n)

    def gathered(self, order: int, backward: bool) -> Tensor:
        """Sums at receivers, or gradients of features."""
        dims = self.operator.plan.source_dims if backward else self.operator.plan.target_dims
        out = self.h.new_empty(self.h.shape[0], dims, self.h.shape[2])
        self._launch(gather_kernel, (order, self.given, backward), out.shape[0], out)
        return out

    def gradients(self, order: int, wanted: Sequence[bool]) -> list[Maybe]:
        """Gradients of the inputs, of first order or of the combination that the cotangents make of these."""
        make: list[Callable[[], Tensor]] = [
            lambda: self.gathered(order, backward=True),
            lambda: self._radial(order),
            lambda: self._mixing(order),
            lambda: self._directions(order),
        ]
        return [made() if want else None for made, want in zip(make, wanted, strict=True)]

    def _radial(self, order: int) -> Tensor:
        sums = self.phi.new_empty(self.pairs, self.sizes.cut.blocks, self.phi.shape[1])
        self._launch(radial_kernel, (order, self.given), self.pairs, sums)
        return sums.sum(1)

    def _directions(self, order: int) -> Tensor:
        parts = edges_of_directions(order)
        sums = self.n.new_empty(len(parts), self.pairs, self.sizes.cut.blocks, 3)
        for part, out in zip(parts, sums, strict=True):
            self._launch(direction_kernel, (order, self.given, part), self.pairs, out)
        return sums.sum((0, 2))

    def _mixing(self, order: int) -> Tensor:
        # Their number depends on sizes alone: sums come out the same every time, and nothing has to wait for the GPU.
        chunks = max(1, min(CHUNKS, self.pairs // PAIRS_OF_CHUNK))
        found = []
        for numbers in self._groups():
            sums = self.U.new_empty(chunks, len(numbers), self.sizes.radial, self.sizes.channels)
            self.values["chunks"] = chunks
            self._launch(mixing_kernel, (order, self.given, numbers), chunks, sums)
            found.append(sums.sum(0))
        return torch.einsum("nr,nkc->krc", self.operator.fold(self.U), torch.cat(found))

    def _groups(self) -> list[tuple[Number, ...]]:
        numbers, most = self.operator.frames.numbers, max(1, MOST_SUMS // self.sizes.radial)
        return [numbers[first : first + most] for first in range(0, len(numbers), most)]

    def _folded(self, mixing: Tensor) -> Tensor:
        """(radial, rows, channels) -> (numbers, radial, channels)."""
        return torch.einsum("nr,krc->nkc", self.operator.fold(mixing), mixing).contiguous()

    def _launch(self, build: Callable[..., Kernel], options: tuple[Any, ...], parts: int, out: Tensor) -> None:
        kernel = self.operator.kernel(build, self.sizes, *options)
        kernel.launch(parts, {**self.values, "out": out}, out)
