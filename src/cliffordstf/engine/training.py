"""Training on forces on the C++ runtime: autograd sees one function, from the weights to energies and gradients."""

import threading
from typing import Any

import torch
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.engine.schedule import Schedule
from cliffordstf.kernels.native.runtime import NativeModel, NativeWorkspace, addresses
from cliffordstf.kernels.operator import Maybe

CHANGED = "a weight was changed after the energies of a batch were computed and before their gradient was."
THIRD = "training on the C++ runtime has one derivative of the loss; for more choose engine='autograd'."


class Trainer:
    """A model on the runtime whose weights are read anew for every batch.

    Args:
        model: Its weights stay where they are.
        schedule: Of the model.
        content: The schedule as bytes.
    """

    def __init__(self, model: nn.Module, schedule: Schedule, content: bytes) -> None:
        every = list(schedule.weights.values())
        self._model = NativeModel(content, every[0].dtype)
        self.work = NativeWorkspace(self._model)
        self.weights = [schedule.weights[name] for name in self._model.weight_names]
        self._parts = _parts(model)
        self._lock, self._turn = threading.Lock(), 0

    def fits(self, model: nn.Module) -> bool:
        """Whether the model still has the weights that this was made for, whatever their values."""
        found = _parts(model)
        return len(found) == len(self._parts) and all(
            one is other and dtype == known for (one, dtype), (other, known) in zip(found, self._parts, strict=True)
        )

    def evaluate(self, batch: Batch, with_gradients: bool = True) -> tuple[Tensor, Tensor | None]:
        """Energies of the network (atoms,) and their gradient with respect to the pairs' vectors (pairs, 3)."""
        energies, *gradients = _Trained.apply(  # type: ignore[no-untyped-call]
            self, batch, with_gradients, *self.weights
        )
        return energies, gradients[0] if with_gradients else None

    def versions(self) -> list[int]:
        """Numbers that change with the weights."""
        return [-1 if weight.is_inference() else weight._version for weight in self.weights]

    @torch.inference_mode(False)
    @torch.no_grad()
    def forward(self, batch: Batch, with_gradients: bool) -> tuple[list[Tensor], int]:
        """Energies and gradients, and a number: while it is the last one, what lies between them is still there."""
        vectors = batch.pair_vectors().detach().contiguous()
        energies = self.weights[0].new_empty(len(batch.numbers))
        gradients = self.weights[0].new_empty(vectors.shape) if with_gradients else None
        with self._lock:
            self._run(batch, vectors, energies, gradients)
            return [energies] if gradients is None else [energies, gradients], self._turn

    @torch.inference_mode(False)
    @torch.no_grad()
    def backward(
        self, batch: Batch, turn: int, of_energies: Tensor, of_gradients: Tensor | None = None
    ) -> list[Tensor]:
        """Gradients of the weights, from those of what `forward` returned."""
        sizes = [weight.numel() for weight in self.weights]
        flat = self.weights[0].new_zeros(sum(sizes))
        found = [part.view_as(weight) for part, weight in zip(flat.split(sizes), self.weights, strict=True)]
        with self._lock:
            if turn != self._turn:  # another batch came in between
                again = None if of_gradients is None else torch.empty_like(of_gradients)
                self._run(batch, batch.pair_vectors().detach().contiguous(), torch.empty_like(of_energies), again)
            ready = None if of_gradients is None else of_gradients.contiguous()
            self.work.train_backward(of_energies.contiguous(), ready, addresses(found))
        return found

    def _run(self, batch: Batch, vectors: Tensor, energies: Tensor, gradients: Tensor | None) -> None:
        self._turn += 1
        weights = [weight.detach().contiguous() for weight in self.weights]
        self._model.set_weights(addresses(weights))
        self.work.set_edges(batch.edges, batch.numbers, batch.size, batch.structure_of_atom)
        self.work.train_forward(vectors, energies, gradients)


class _Trained(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, trainer: Trainer, batch: Batch, with_gradients: bool, *_: Tensor) -> tuple[Tensor, ...]:
        ctx.trainer, ctx.batch, ctx.versions = trainer, batch, trainer.versions()
        found, ctx.turn = trainer.forward(batch, with_gradients)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Maybe, ...]:
        if ctx.versions != ctx.trainer.versions():
            raise RuntimeError(CHANGED)
        if torch.is_grad_enabled():
            found = _Gradient.apply(  # type: ignore[no-untyped-call]
                ctx, len(gradients), *gradients, *ctx.trainer.weights
            )
        else:
            found = ctx.trainer.backward(ctx.batch, ctx.turn, *gradients)
        needs = ctx.needs_input_grad[3:]
        return (None, None, None, *(gradient if need else None for gradient, need in zip(found, needs, strict=True)))


class _Gradient(torch.autograd.Function):
    """Stands in the graph so that another derivative is refused instead of being silently incomplete."""

    @staticmethod
    def forward(_ctx: Any, node: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(node.trainer.backward(node.batch, node.turn, *tensors[:count]))

    @staticmethod
    def backward(_ctx: Any, *_: Maybe) -> tuple[Maybe, ...]:
        raise NotImplementedError(THIRD)


def _parts(model: nn.Module) -> list[tuple[Tensor | nn.Module, torch.dtype | None]]:
    modules = list(model.modules())
    tensors = [tensor for module in modules for tensor in module._parameters.values() if tensor is not None]
    return [*((module, None) for module in modules), *((tensor, tensor.dtype) for tensor in tensors)]
