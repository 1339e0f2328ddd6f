"""The default model without autograd: energies and their gradient for dynamics, relaxation and large systems.

Every operator has its gradient at hand, so the backward pass is written out. That saves what autograd costs on small
systems, and memory on large ones: the stages that concern each atom alone go through a few thousand atoms at a time,
and where memory is short only their inputs are kept and what lies between is made again. A small system that comes
again with other positions but the same neighbours, as in dynamics, finds its memory and all arguments as they were.
"""

import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.host.allocator import free_memory
from cliffordstf.kernels import kernel_name
from cliffordstf.kernels.native.kernel import padded, padded_channels
from cliffordstf.kernels.native.pairs import PreparedPairs
from cliffordstf.kernels.native.radial import PreparedRadial
from cliffordstf.model.default import DefaultModel
from cliffordstf.model.tape import Tape
from cliffordstf.model.written import Stage, WrittenLayer, chunks
from cliffordstf.nn.dual import is_plain
from cliffordstf.nn.interaction import DefaultInteraction

CHUNK = 2048
"""Atoms that go through the stages of a layer together, when there are more than that."""

KEEP = 4e9
"""Bytes that may be kept of the stages, at most half of what is free; beyond that they are made again on the way back,
for a fifth more time."""

RECORDED = 512
"""Atoms of a batch whose memory is kept for the next one with the same edges. For more there is little to gain."""


@dataclass(frozen=True)
class PairGradients:
    """What the model says of a batch.

    Attributes:
        atom_energies: (atoms,).
        gradients: Of the total energy with respect to the vectors of the straight edges, 1/Å, (pairs, 3).
    """

    atom_energies: Tensor
    gradients: Tensor


def can_infer(model: nn.Module, device: torch.device) -> TypeGuard[DefaultModel]:
    """Whether `pair_gradients` can take the place of autograd for this model here."""
    if not isinstance(model, DefaultModel) or device.type != "cpu" or not all(map(is_plain, model.networks)):
        return False
    return kernel_name(device, model.embedding.weight.dtype) == "compiled"


# Tensors that are kept must not be of inference mode: they could not be written to outside of it.
@torch.inference_mode(False)
@torch.no_grad()
def pair_gradients(
    model: DefaultModel, batch: Batch, species: Tensor, chunk: int = CHUNK, keep: float | None = None
) -> PairGradients:
    """Atomic energies and the gradient of their sum.

    Beyond `chunk` atoms, the stages that concern each atom alone go through in parts.
    """
    written = _written(model)
    vectors = batch.pair_vectors().to(model.embedding.weight.dtype)
    if len(species) > min(RECORDED, chunk):
        keep = min(KEEP, 0.5 * free_memory()) if keep is None else keep
        return _evaluate(written, vectors, batch, species, list(chunks(len(species), chunk)), keep, Tape(False))
    if not written.lock.acquire(blocking=False):  # another thread is at work on the memory that is kept
        return _evaluate(written, vectors, batch, species, [slice(0, len(species))], KEEP, Tape(False))
    try:
        return _again(written, vectors, batch, species)
    finally:
        written.lock.release()


@dataclass
class _Record:
    """An evaluation that can be repeated: its tape, where it begins and where its results are."""

    key: Hashable
    batch: Batch
    tape: Tape
    vectors: Tensor
    results: PairGradients


class _Written:
    """The radial functions, directions and layers of a model as explicit operators, and the last small batch."""

    def __init__(self, model: DefaultModel) -> None:
        linears = [layer for layer in model.radial.network if isinstance(layer, nn.Linear)]
        self.radial = PreparedRadial(
            [layer.weight.mT for layer in linears],
            [layer.bias for layer in linears],
            model.radial.shifts,
            model.radial.layers,
            model.radial.cutoff,
            model.radial.power,
            model.radial.basis.warp,
        )
        weight = model.embedding.weight
        self.embedding = cast("Tensor", padded(weight.detach(), padded_channels(weight.shape[1], weight.dtype)))
        self.pairs = PreparedPairs(weight.dtype)
        self.layers = [
            WrittenLayer(cast("DefaultInteraction", layer), cast("nn.Sequential", readout))
            for layer, readout in zip(model.layers, model.layer_readouts, strict=True)
        ]
        self.bytes_per_atom = sum(layer.bytes_per_atom for layer in self.layers)
        self.lock = threading.Lock()
        self.record: _Record | None = None


_known: "WeakKeyDictionary[DefaultModel, tuple[Hashable, _Written]]" = WeakKeyDictionary()


def _written(model: DefaultModel) -> _Written:
    """The model's operators, made again when a weight has changed.

    A change in place is seen by the weight's version, which writing through `.data` does not raise: use `no_grad`.
    """
    state = tuple(map(_state, parameters_of(model)))
    found = _known.get(model)
    if found is None or found[0] != state:
        found = _known[model] = (state, _Written(model))
    return found[1]


def _state(tensor: Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), -1 if tensor.is_inference() else tensor._version


def parameters_of(module: nn.Module) -> Iterator[nn.Parameter]:
    """All parameters, ten times faster than `Module.parameters`, which also makes their names."""
    modules = [module]
    for part in modules:
        yield from (parameter for parameter in part._parameters.values() if parameter is not None)
        modules.extend(child for child in part._modules.values() if child is not None)


def _again(written: _Written, vectors: Tensor, batch: Batch, species: Tensor) -> PairGradients:
    """Repeat the last evaluation with other vectors if only these have changed, or record a new one."""
    # The record holds the batch, so no other tensor can have come to lie at the same address.
    key = (torch.get_num_threads(), *map(_state, (batch.numbers, *batch.edges)))
    record = written.record
    if record is not None and record.key == key:
        record.vectors.copy_(vectors)
        record.tape.again()
    else:
        written.record = None  # so that its memory can be used again
        tape, everything = Tape(True), [slice(0, len(species))]
        results = _evaluate(written, vectors, batch, species, everything, KEEP, tape)
        record = written.record = _Record(key, batch, tape, vectors, results)
    return PairGradients(record.results.atom_energies.clone(), record.results.gradients.clone())


def _evaluate(
    written: _Written, vectors: Tensor, batch: Batch, species: Tensor, parts: list[slice], keep: float, tape: Tape
) -> PairGradients:
    layers = written.layers
    distances, directions = tape.fill(written.pairs.prepare_forward(vectors))
    functions, slopes = tape.fill(written.radial.prepare(distances, batch.edges.ends(species)))
    features = [written.embedding[species][:, None]]
    energies = vectors.new_empty(len(species))
    tape.do(energies.zero_)
    is_kept = len(parts) == 1 or len(species) * written.bytes_per_atom < keep
    sums: list[Tensor] = []
    kept: list[list[Stage]] = []
    sent: list[Tensor | None] = []
    for layer, radial in zip(layers, functions.unbind(0), strict=True):
        sending = tape.fill(layer.up.prepare_forward([features[-1]]))
        sums.append(layer.aggregate(sending, radial, directions, batch, tape))
        sent.append(sending if is_kept else None)
        output, stages = layer.outputs(sums[-1], features[-1], species, energies, parts, is_kept, tape)
        features.append(output)
        kept.append(stages)
    features.pop()
    gradient: Tensor | None = None
    radial_gradients: list[Tensor] = []
    turns: list[Tensor] = []
    for index in reversed(range(len(layers))):
        layer, source = layers[index], features.pop()
        of_sum, of_source = layer.gradients(sums.pop(), source, species, gradient, parts, kept.pop(), tape)
        known = sent.pop()
        sending = tape.fill(layer.up.prepare_forward([source])) if known is None else known
        sent_gradient, radial_gradient, turned = layer.aggregate_backward(
            of_sum, sending, functions[index], directions, batch, with_source=index > 0, tape=tape
        )
        radial_gradients.insert(0, radial_gradient)
        turns.insert(0, turned)
        if sent_gradient is not None:
            tape.do(partial(of_source.add_, sent_gradient))
        gradient = of_source
    return PairGradients(energies, tape.fill(written.pairs.prepare_backward(vectors, slopes, radial_gradients, turns)))
