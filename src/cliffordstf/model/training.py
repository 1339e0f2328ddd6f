"""The default model for training on forces: energies, their gradient and that of a loss on both, without autograd.

A batch of a few molecules costs more to administer than to compute. Here the operators of a model, their gradients and
the gradients of these are written down once, on memory that stays; every batch that fits goes through all of it.
Autograd sees one node, from the weights to atomic energies and their gradient.
"""

import threading
from collections.abc import Hashable
from typing import Any, TypeGuard, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.graph import EdgeCounts, EdgeIndex
from cliffordstf.kernels.native.kernel import padded_channels
from cliffordstf.kernels.operator import THIRD_DERIVATIVE, Maybe, recorder
from cliffordstf.kernels.program import Program
from cliffordstf.kernels.replay import Replay, written_to
from cliffordstf.model.default import DefaultModel
from cliffordstf.model.inference import PairGradients, can_infer, parameters_of
from cliffordstf.nn.dual import DualNetwork, value_and_gradient
from cliffordstf.nn.radial import DualRadial

MOST_ATOMS = 1024
"""Atoms of a batch whose memory is kept for the next one. For more there is little to gain."""

ROOM = 1.25
"""Memory is made for somewhat more than is needed, so that few batches find too little."""

READ = ("senders", "receivers", "row_pointers", "pair_edges")
"""What the convolution reads of the edges."""

CHANGED = "a weight was changed after the energies of a batch were computed and before their gradient was."


def trained_pair_gradients(model: nn.Module, batch: Batch, species: Tensor) -> PairGradients | None:
    """Atomic energies and the gradient of their sum, both differentiable with respect to the weights.

    None where autograd has to do it: for other models, devices and sizes.
    """
    tape = _tape(model, EdgeCounts.of(batch.edges)) if _has_kernels(model, batch) else None
    if tape is None:
        return None
    return PairGradients(*_Trained.apply(tape, batch, species, *tape.parameters))  # type: ignore[no-untyped-call]


def forget(model: nn.Module) -> None:
    """Give back the memory that training has used."""
    if isinstance(model, DefaultModel):
        _known.pop(model, None)


def _has_kernels(model: nn.Module, batch: Batch) -> TypeGuard[DefaultModel]:
    if not can_infer(model, batch.positions.device):
        return False
    weight = model.embedding.weight
    is_whole = padded_channels(weight.shape[1], weight.dtype) == weight.shape[1]
    return is_whole and len(batch.numbers) <= MOST_ATOMS and len(batch.edges.pair_edges) > 0


class _Trained(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tape: "TrainingTape", batch: Batch, species: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        ctx.tape, ctx.batch, ctx.species, ctx.versions = tape, batch, species, tape.versions()
        energies, gradients, ctx.turn = tape.evaluate(batch, species)
        return energies, gradients

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Maybe, ...]:
        if ctx.versions != ctx.tape.versions():
            raise RuntimeError(CHANGED)
        if torch.is_grad_enabled():
            found = _Gradient.apply(ctx, *gradients, *ctx.tape.parameters)  # type: ignore[no-untyped-call]
        else:
            found = ctx.tape.differentiate(ctx.batch, ctx.species, ctx.turn, *gradients)
        return (None, None, None, *found)


class _Gradient(torch.autograd.Function):
    """Stands in the graph so that another derivative is refused instead of being silently incomplete."""

    @staticmethod
    def forward(_ctx: Any, node: Any, of_energies: Tensor, of_gradients: Tensor, *_: Tensor) -> tuple[Maybe, ...]:
        return tuple(node.tape.differentiate(node.batch, node.species, node.turn, of_energies, of_gradients))

    @staticmethod
    def backward(_ctx: Any, *_: Maybe) -> tuple[Maybe, ...]:
        raise NotImplementedError(THIRD_DERIVATIVE)


class _UnknownWeightError(Exception):
    """Something that the kernels read is neither of the batch nor a weight that stays where it is."""


_known: "WeakKeyDictionary[DefaultModel, tuple[Hashable, TrainingTape | None]]" = WeakKeyDictionary()


# Memory that is kept must not be of inference mode: it could not be written to outside of it.
@torch.inference_mode(False)
def _tape(model: DefaultModel, counts: EdgeCounts) -> "TrainingTape | None":
    """The model's tape, made again when its weights are other tensors or a batch does not fit.

    None for a model with weights that are not what they were built as.
    """
    state = tuple((parameter.data_ptr(), parameter.requires_grad) for parameter in parameters_of(model))
    known, tape = _known.get(model, (None, None))
    if known == state and (tape is None or tape.fits(counts)):
        return tape
    kept = (0, 0, 0) if tape is None else _sizes(tape.room)
    sizes = (have if size <= have else int(ROOM * size) for size, have in zip(_sizes(counts), kept, strict=True))
    tape = None
    forget(model)  # before there is another one: two would need memory for both
    try:
        tape = TrainingTape(model, EdgeCounts(*sizes))
    except _UnknownWeightError:
        tape = None
    _known[model] = (state, tape)
    return tape


def _sizes(counts: EdgeCounts) -> tuple[int, int, int]:
    return counts.atoms, counts.edges, counts.pairs


class TrainingTape:
    """Everything that happens to a batch between the weights and the gradient of a loss, on memory that stays.

    With φ the radial functions of a pair, n its direction, d its length, and E the energy, the gradient with respect to
    the vector of the pair is (Σ ∂E/∂φ φ') n + P ∂E/∂n / d, with P the projection perpendicular to n. From a cotangent u
    of it come (u·n) φ' for ∂E/∂φ, P u / d for ∂E/∂n, and (u·n) ∂E/∂φ for the slopes φ'.

    Args:
        model: Its weights stay where they are.
        room: For so many atoms, edges and pairs.
    """

    def __init__(self, model: DefaultModel, room: EdgeCounts) -> None:
        weight = model.embedding.weight
        self.room, self._embedding = room, weight
        self._radial = DualRadial(model.radial)
        self._readouts = [cast("nn.Sequential", readout) for readout in model.layer_readouts]
        self._dual_readouts = [DualNetwork(readout) for readout in self._readouts]
        self._lock, self._turn, self._counts, self._threads = threading.Lock(), 0, EdgeCounts(0), 0
        self._species = torch.zeros(room.atoms, dtype=torch.int64)
        self._edges = _room_for_edges(room)
        functions = model.config.radial_functions
        self._features = weight.new_zeros(room.atoms, 1, weight.shape[1])
        self._functions = weight.new_zeros(model.config.layers, room.pairs, functions)
        self._directions = weight.new_zeros(room.pairs, 3)
        self._slopes = weight.new_zeros(model.config.layers, room.atoms, 1, weight.shape[1])
        self._of_functions = torch.zeros_like(self._functions)
        self._of_directions = torch.zeros_like(self._directions)
        self._of_scalars = torch.zeros_like(self._slopes)
        with torch.no_grad():
            self._write(model)

    def _write(self, model: DefaultModel) -> None:
        """Write down the operators, their gradients with respect to the geometry, and the gradients of both."""
        self._forward, self._backward, self._second, self._last = (Replay() for _ in range(4))
        program = Program()
        functions = list(self._functions.unbind(0))
        with written_to(self._forward), recorder.of(program):
            scalars = model.layer_scalars(self._features, self._species, functions, self._directions, self._edges)
        values, made = program.values, program.made
        shown = [program.place(tensor) for tensor in scalars]
        self._scalars = scalars
        geometry = {id(tensor): of for tensor, of in zip(functions, self._of_functions.unbind(0), strict=True)}
        geometry[id(self._directions)] = self._of_directions
        inputs = {*geometry, id(self._features)}
        is_weight = [_is_weight(tensor) for tensor in program.originals]
        for tensor, weighs in zip(program.originals, is_weight, strict=True):
            if not (weighs or id(tensor) in inputs or tensor.numel() == 0):
                raise _UnknownWeightError
        done = program.masks([id(tensor) in geometry for tensor in program.originals], promised=False)
        with written_to(self._backward):
            outside = dict(zip(shown, self._slopes.unbind(0), strict=True))
            gradients = program.backward([outside.get(place) for place in made], values, done)
        needs = [
            tensor.requires_grad if weighs else id(tensor) in inputs and tensor is not self._directions
            for tensor, weighs in zip(program.originals, is_weight, strict=True)
        ]
        masks = program.masks(needs, promised=False)
        with written_to(self._second):
            cotangents = [geometry.get(id(tensor)) for tensor in program.originals]
            turned, sums = program.second(cotangents, gradients, values, done, masks)
        with written_to(self._last):
            outside = dict(zip(shown, self._of_scalars.unbind(0), strict=True))
            start = [outside.get(place, sums[place]) for place in made]
            final = program.backward(start, values, masks, [sums[place] for place in program.given])
        self._turned_scalars = [turned[place] for place in shown]
        self._function_gradients = [_known_tensor(gradients[program.place(tensor)]) for tensor in functions]
        self._direction_gradients = _known_tensor(gradients[program.place(self._directions)])
        self._of_values = [_known_tensor(final[program.place(tensor)]) for tensor in functions]
        self._of_features = final[program.place(self._features)]
        weights = zip(program.originals, program.given, is_weight, strict=True)
        self._weights = [(tensor, final[place]) for tensor, place, weighs in weights if weighs]

    @property
    def parameters(self) -> list[Tensor]:
        """All weights, in the order of the gradients that `differentiate` returns."""
        return [
            self._embedding,
            *(parameter for parameter, _ in self._weights),
            *self._radial.parameters,
            *(parameter for network in self._dual_readouts for parameter in network.parameters),
        ]

    def versions(self) -> list[int]:
        """Numbers that change with the weights."""
        return [parameter._version for parameter in self.parameters]

    def fits(self, counts: EdgeCounts) -> bool:
        """Whether there is room for a batch."""
        return all(size <= most for size, most in zip(_sizes(counts), _sizes(self.room), strict=True))

    def evaluate(self, batch: Batch, species: Tensor) -> tuple[Tensor, Tensor, int]:
        """Atomic energies (atoms,), their gradient with respect to the pairs' vectors (pairs, 3), and a number.

        As long as no other batch is evaluated, that number says that the values in between are still there.
        """
        with self._lock, torch.no_grad():
            return *self._evaluate(batch, species), self._turn

    def differentiate(
        self, batch: Batch, species: Tensor, turn: int, of_energies: Tensor, of_gradients: Tensor
    ) -> list[Maybe]:
        """Gradients of all `parameters`, from those of what `evaluate` returned."""
        with self._lock, torch.no_grad():
            if turn != self._turn:
                self._evaluate(batch, species)
            return self._differentiate(of_energies, of_gradients)

    def _evaluate(self, batch: Batch, species: Tensor) -> tuple[Tensor, Tensor]:
        self._turn += 1
        self._take(batch, species)
        atoms, pairs = self._counts.atoms, self._counts.pairs
        vectors = batch.pair_vectors().detach().to(self._embedding.dtype)
        self._lengths = vectors.norm(dim=1, keepdim=True)
        self._units = torch.div(vectors, self._lengths, out=self._directions[:pairs])
        functions, self._function_slopes = self._radial.forward(self._lengths[:, 0], batch.edges.ends(species))
        self._functions[:, :pairs] = functions
        self._forward.run()
        energies = self._embedding.new_zeros(atoms)
        for readout, scalars, slopes in zip(self._readouts, self._scalars, self._slopes, strict=True):
            values, slopes[:atoms, 0] = value_and_gradient(readout, scalars[:atoms, 0])
            energies += values
        self._backward.run()
        along = self._embedding.new_zeros(pairs, 1)
        for found, slopes in zip(self._function_gradients, self._function_slopes, strict=True):
            along += (found[:pairs] * slopes).sum(dim=1, keepdim=True)
        turns = self._across(self._direction_gradients[:pairs])
        return energies, torch.addcmul(turns, along, self._units)

    def _across(self, vectors: Tensor) -> Tensor:
        """The part of vectors perpendicular to the pairs' directions, over their lengths, (pairs, 3)."""
        along = (vectors * self._units).sum(dim=1, keepdim=True)
        return torch.addcmul(vectors, along, self._units, value=-1) / self._lengths

    def _take(self, batch: Batch, species: Tensor) -> None:
        """Copy what the kernels read of a batch to where they read it."""
        counts, threads = EdgeCounts.of(batch.edges), torch.get_num_threads()
        for name in READ:
            tensor = getattr(batch.edges, name)
            getattr(self._edges, name)[: len(tensor)] = tensor
        self._species[: counts.atoms] = species
        torch.index_select(self._embedding, 0, species, out=self._features[: counts.atoms, 0])
        if (counts, threads) != (self._counts, self._threads):
            self._counts = EdgeCounts(0)  # until all know, none may be taken to know: an interrupt may come in between
            for part in (self._forward, self._backward, self._second, self._last):
                part.resize(counts)
            self._counts, self._threads = counts, threads

    def _differentiate(self, of_energies: Tensor, of_gradients: Tensor) -> list[Maybe]:
        atoms, pairs = self._counts.atoms, self._counts.pairs
        along = (of_gradients * self._units).sum(dim=1, keepdim=True)
        torch.mul(along, self._function_slopes, out=self._of_functions[:, :pairs])
        self._of_directions[:pairs] = self._across(of_gradients)
        self._second.run()
        ones, of_values = torch.ones_like(of_energies)[:, None], of_energies[:, None]
        of_readouts: list[Maybe] = []
        for index, network in enumerate(self._dual_readouts):
            turned = self._turned_scalars[index]
            scalars = self._scalars[index][:atoms, 0]
            network.forward(scalars, torch.zeros_like(scalars) if turned is None else turned[:atoms, 0])
            self._of_scalars[index, :atoms, 0], found = network.backward(of_values, ones)
            of_readouts += found
        self._last.run()
        of_slopes = torch.cat([along * found[:pairs] for found in self._function_gradients], dim=1)
        of_radial = self._radial.backward(torch.cat([found[:pairs] for found in self._of_values], dim=1), of_slopes)
        of_embedding = torch.zeros_like(self._embedding)
        if self._of_features is not None:
            of_embedding.index_add_(0, self._species[:atoms], self._of_features[:atoms, 0])
        of_weights = [None if gradient is None else gradient.clone() for _, gradient in self._weights]
        return [of_embedding, *of_weights, *of_radial, *of_readouts]


def _room_for_edges(room: EdgeCounts) -> EdgeIndex:
    def integers(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.int64)

    return EdgeIndex(
        senders=integers(room.edges),
        receivers=integers(room.edges),
        row_pointers=integers(room.atoms + 1),
        reverse=integers(room.edges),
        pair=integers(room.edges),
        turned=torch.zeros(room.edges, dtype=torch.uint8),
        pair_edges=integers(room.pairs, 2),
    )


def _is_weight(tensor: Tensor) -> bool:
    """Whether the optimiser changes it where it is."""
    return isinstance(tensor, nn.Parameter) and tensor.is_contiguous()


def _known_tensor(tensor: Maybe) -> Tensor:
    assert tensor is not None
    return tensor
