"""The default model without autograd: energies and their gradient for dynamics, relaxation and large systems.

Every operator has its gradient at hand, so the backward pass is written out. That saves what autograd costs on small
systems, and memory on large ones: the stages that concern each atom alone go through a few thousand atoms at a time,
and where memory is short only their inputs are kept and what lies between is made again.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from cliffordstf.algebra.stf import stf_powers
from cliffordstf.algebra.tracks import SCALAR
from cliffordstf.data.batch import Batch
from cliffordstf.kernels import kernel_name
from cliffordstf.kernels.native.edge import EdgeConvolution
from cliffordstf.kernels.native.gate import ScalarGate
from cliffordstf.kernels.native.linear import PreparedLinear
from cliffordstf.kernels.native.node import NodeBilinear
from cliffordstf.kernels.native.radial import PreparedRadial
from cliffordstf.model.default import DefaultModel
from cliffordstf.nn.interaction import DefaultInteraction
from cliffordstf.nn.linear import SILU_GAIN

CHUNK = 2048
"""Atoms that go through the stages of a layer together, when there are more than that."""

KEEP = 4e9
"""Bytes that may be kept of the stages; beyond that they are made again on the way back, for a fifth more time."""

PAIR_CHUNK = 16384
"""Pairs whose direction tensors are made together, when there are more than that."""


@dataclass(frozen=True)
class PairGradients:
    """What the model says of a batch.

    Attributes:
        atom_energies: (atoms,).
        gradients: Of the total energy with respect to the vectors of the straight edges, 1/Å, (pairs, 3).
    """

    atom_energies: Tensor
    gradients: Tensor


def can_infer(model: nn.Module, device: torch.device) -> bool:
    """Whether `pair_gradients` can take the place of autograd for this model here."""
    if not isinstance(model, DefaultModel) or device.type != "cpu":
        return False
    return kernel_name(device, model.embedding.weight.dtype) == "compiled"


@torch.no_grad()
def pair_gradients(
    model: DefaultModel,
    batch: Batch,
    species: Tensor,
    chunk: int = CHUNK,
    pair_chunk: int = PAIR_CHUNK,
    keep: float = KEEP,
) -> PairGradients:
    """Atomic energies and the gradient of their sum."""
    radial, layers = _prepare(model)
    pairs = _Pairs(model, radial, batch.pair_vectors().to(model.embedding.weight.dtype), pair_chunk)
    features = [model.embedding(species)[:, None]]
    sums: list[Tensor] = []
    energies = features[0].new_zeros(species.shape[0])
    parts = list(_chunks(species.shape[0], chunk))
    is_kept = len(parts) == 1 or len(species) * sum(layer.bytes_per_atom for layer in layers) < keep
    kept: list[list[_Stage]] = []
    sent: list[Tensor | None] = []
    for layer, functions in zip(layers, pairs.functions, strict=True):
        sending = layer.up.forward([features[-1]])
        sums.append(layer.aggregate(sending, functions, pairs.directions, batch))
        sent.append(sending if is_kept else None)
        output, stages = layer.outputs(sums[-1], features[-1], species, energies, parts, is_kept)
        features.append(output)
        kept.append(stages)
    gradient: Tensor | None = None
    radial_gradients: list[Tensor] = []
    direction_gradient = torch.zeros_like(pairs.directions)
    features.pop()
    for index in reversed(range(len(layers))):
        layer, source = layers[index], features.pop()
        found = layer.gradients(sums.pop(), source, species, gradient, parts, kept.pop())
        known = sent.pop()
        sending = layer.up.forward([source]) if known is None else known
        sent_gradient, radial_gradient, turned = layer.aggregate_backward(
            found[0], sending, pairs.functions[index], pairs.directions, batch, with_source=index > 0
        )
        radial_gradients.insert(0, radial_gradient)
        direction_gradient += turned
        gradient = found[1].add_(sent_gradient) if sent_gradient is not None else None
    return PairGradients(energies, pairs.gradients(radial_gradients, direction_gradient))


class _Pairs:
    """Radial functions and direction tensors of the straight edges.

    What lies between the directions and the vectors is larger than they are; in pieces of a few thousand pairs it stays
    in cache.

    Attributes:
        functions: Of each layer, (pairs, functions).
        directions: (pairs, (lmax+1)²).
    """

    def __init__(self, model: DefaultModel, radial: PreparedRadial, vectors: Tensor, chunk: int) -> None:
        self.lmax, self.vectors = model.config.lmax, vectors
        self.parts = list(_chunks(len(vectors), chunk))
        self.distances = vectors.norm(dim=1)
        functions, slopes = radial(self.distances)
        self.functions, self.slopes = functions.unbind(0), slopes.unbind(0)
        self.turns: Tensor | None = None
        if len(self.parts) == 1:
            self.directions, self.turns = self._directions(self.parts[0])
            return
        self.directions = vectors.new_empty(len(vectors), (self.lmax + 1) ** 2)
        for part in self.parts:
            self.directions[part], _ = self._directions(part)

    def _directions(self, part: slice) -> tuple[Tensor, Tensor]:
        """Direction tensors (pairs, (lmax+1)²) and their derivatives (pairs, 3, (lmax+1)²)."""
        directions, turns = stf_powers(self._unit(part), self.lmax, unit=True)
        return directions.contiguous(), turns

    def _unit(self, part: slice) -> Tensor:
        return self.vectors[part] / self.distances[part, None]

    def gradients(self, radial: list[Tensor], directions: Tensor) -> Tensor:
        """With respect to the vectors, (pairs, 3), from those with respect to functions and directions."""
        result = torch.empty_like(self.vectors)
        for part in self.parts:
            unit = self._unit(part)
            turns = self._directions(part)[1] if self.turns is None else self.turns
            slopes = zip(radial, self.slopes, strict=True)
            steepness = sum((gradient[part] * slope[part]).sum(dim=1, keepdim=True) for gradient, slope in slopes)
            turn = (turns @ directions[part, :, None])[:, :, 0]
            tangential = turn - unit * (turn * unit).sum(dim=1, keepdim=True)
            result[part] = steepness * unit + tangential / self.distances[part, None]
        return result


def _chunks(atoms: int, size: int) -> Iterator[slice]:
    for start in range(0, max(atoms, 1), size):
        yield slice(start, min(start + size, atoms))


_Prepared = tuple[PreparedRadial, "list[_Layer]"]
_prepared: "WeakKeyDictionary[DefaultModel, tuple[Hashable, _Prepared]]" = WeakKeyDictionary()


def _prepare(model: DefaultModel) -> _Prepared:
    """The radial functions and the layers as explicit operators, made again when a weight has changed.

    A change in place is seen by the weight's version, which writing through `.data` does not raise: use `no_grad`.
    """
    state = tuple((p.data_ptr(), -1 if p.is_inference() else p._version) for p in _parameters(model))
    found = _prepared.get(model)
    if found is None or found[0] != state:
        layers = [
            _Layer(cast("DefaultInteraction", layer), cast("nn.Sequential", readout))
            for layer, readout in zip(model.layers, model.layer_readouts, strict=True)
        ]
        found = _prepared[model] = (state, (_radial(model), layers))
    return found[1]


def _radial(model: DefaultModel) -> PreparedRadial:
    linears = [layer for layer in model.radial.network if isinstance(layer, nn.Linear)]
    return PreparedRadial(
        [layer.weight.mT for layer in linears],
        [layer.bias for layer in linears],
        model.radial.layers,
        model.radial.cutoff,
        model.radial.power,
    )


def _parameters(module: nn.Module) -> Iterator[nn.Parameter]:
    """All parameters, ten times faster than `Module.parameters`, which also makes their names."""
    modules = [module]
    for part in modules:
        yield from (parameter for parameter in part._parameters.values() if parameter is not None)
        modules.extend(child for child in part._modules.values() if child is not None)


class _Layer:
    """A layer and its readout as explicit operators, with the linear maps' weights ready for both directions."""

    def __init__(self, layer: DefaultInteraction, readout: nn.Sequential) -> None:
        self.readout = readout
        self.layout, self.mixing = layer.layout, layer.convolution.mixing
        self.convolution = EdgeConvolution.from_key(layer.convolution.plan.key)
        self.products = [NodeBilinear.from_key(plan.key) for plan in layer.product.plans]
        self.weights = list(layer.product.weights)
        self.up = PreparedLinear(layer.linear_up.plan, [layer.linear_up.weight])
        self.down = PreparedLinear(layer.linear_aggregate.plan, [layer.linear_aggregate.weight])
        self.mix = PreparedLinear(layer.mix, [linear.weight for linear in layer._linears()])
        self.update = PreparedLinear(layer.update, [layer.linear_out.weight, layer.skip.weight])
        self.gate = layer.gate
        self.logits = None if self.gate.weight is None else PreparedLinear(self.gate.logits, [self.gate.weight])
        self.gating = None if self.gate.weight is None else ScalarGate.from_key(self.gate.plan.key)
        powers = sum(power.dims for power in layer.product.powers)
        gates = self.gate.logits.target_dims
        width, size = self.mixing.shape[2], self.mixing.element_size()
        self.bytes_per_atom = (powers + 2 * self.layout.dims + layer.linear_up.layout.dims + gates) * width * size

    def aggregate(self, sending: Tensor, radial: Tensor, directions: Tensor, batch: Batch) -> Tensor:
        """The convolution of what the atoms send, (atoms, components, channels)."""
        inputs = [sending, radial, self.mixing, directions]
        return self.convolution.forward(inputs, batch.edges)

    def aggregate_backward(
        self, gradient: Tensor, sending: Tensor, radial: Tensor, directions: Tensor, batch: Batch, with_source: bool
    ) -> tuple[Tensor | None, Tensor, Tensor]:
        """Gradients with respect to features (if asked for), radial functions and directions."""
        inputs = [sending, radial, self.mixing, directions]
        wanted = [with_source, True, False, True]
        sent, functions, _, turned = self.convolution.backward(gradient, inputs, batch.edges, wanted)
        assert functions is not None
        assert turned is not None
        return None if sent is None else self.up.backward(sent)[0], functions, turned

    def stage(self, aggregate: Tensor, features: Tensor, species: Tensor) -> "_Stage":
        """What happens to each atom by itself."""
        return _Stage(self, aggregate, features, species)

    def outputs(
        self,
        aggregate: Tensor,
        features: Tensor,
        species: Tensor,
        energies: Tensor,
        parts: list[slice],
        is_kept: bool,
    ) -> tuple[Tensor, "list[_Stage]"]:
        """Output of the stage, part by part, and what was made on the way if it is to be kept; adds to the energies."""
        stages: list[_Stage] = []
        if len(parts) == 1:
            stages.append(self.stage(aggregate, features, species))
            energies += stages[0].energies
            return stages[0].output, stages
        result = aggregate.new_empty(len(species), self.layout.dims, aggregate.shape[2])
        for part in parts:
            stage = self.stage(aggregate[part], features[part], species[part])
            result[part] = stage.output
            energies[part] += stage.energies
            if is_kept:
                stages.append(stage)
        return result, stages

    def gradients(
        self,
        aggregate: Tensor,
        features: Tensor,
        species: Tensor,
        gradient: Tensor | None,
        parts: list[slice],
        stages: "list[_Stage]",
    ) -> tuple[Tensor, Tensor]:
        """Gradients of the stage, part by part; the aggregate may be overwritten with its own."""
        if len(parts) == 1:
            return stages[0].backward(gradient)
        result = torch.empty_like(features)
        for number, part in enumerate(parts):
            stage = stages[number] if stages else self.stage(aggregate[part], features[part], species[part])
            found = stage.backward(None if gradient is None else gradient[part])
            aggregate[part], result[part] = found
        return aggregate, result


class _Stage:
    """Products, mixing, gate, update and readout of some atoms, with what their gradient needs."""

    def __init__(self, owner: _Layer, aggregate: Tensor, features: Tensor, species: Tensor) -> None:
        self.owner, self.species = owner, species.contiguous()
        first = owner.down.forward([aggregate])
        self.powers = [first]
        for product, weights in zip(owner.products, owner.weights, strict=True):
            self.powers.append(product.forward([first, self.powers[-1], weights], [self.species]))
        self.mixed = owner.mix.forward([*self.powers, features])
        self.logits = None if owner.logits is None else owner.logits.forward([self.mixed])
        self.output = owner.update.forward([self._gated(), features])
        self.scalars = owner.layout.take(self.output, SCALAR)[:, 0]
        self.energies = owner.readout(self.scalars)[:, 0]

    def _gated(self) -> Tensor:
        gate = self.owner.gate
        if self.owner.gating is None or self.logits is None or gate.bias is None:
            return nn.functional.silu(self.mixed) * SILU_GAIN
        return self.owner.gating.forward([self.mixed, self.logits, gate.bias], ())

    def backward(self, gradient: Tensor | None) -> tuple[Tensor, Tensor]:
        """Gradients with respect to the aggregate and the features, from that of the output (and of the energies)."""
        owner = self.owner
        total = torch.zeros_like(self.output) if gradient is None else gradient.clone()
        total[:, owner.layout.slice(SCALAR).start] += _readout_gradient(owner.readout, self.scalars)
        gated, features = owner.update.backward(total)
        *powers, own = owner.mix.backward(self._gate_backward(gated))
        features += own
        return owner.down.backward(self._products_backward(powers))[0], features

    def _gate_backward(self, gradient: Tensor) -> Tensor:
        owner = self.owner
        if owner.gating is None or owner.logits is None or self.logits is None or owner.gate.bias is None:
            sigmoid = torch.sigmoid(self.mixed)
            return gradient * (sigmoid + self.mixed * sigmoid * (1 - sigmoid)) * SILU_GAIN
        inputs = [self.mixed, self.logits, owner.gate.bias]
        mixed, logits, _ = owner.gating.backward(gradient, inputs, (), [True, True, False])
        assert mixed is not None
        assert logits is not None
        mixed += owner.logits.backward(logits)[0]
        return mixed

    def _products_backward(self, gradients: list[Tensor]) -> Tensor:
        """From the gradients of the powers to that of the first power, which is an operand of every product."""
        first = gradients[0]
        for index in reversed(range(len(self.owner.products))):
            inputs = [self.powers[0], self.powers[index], self.owner.weights[index]]
            product = self.owner.products[index]
            left, right, _ = product.backward(gradients[index + 1], inputs, [self.species], [True, True, False])
            assert left is not None
            assert right is not None
            first += left
            gradients[index] += right
        return first


def _readout_gradient(network: nn.Sequential, scalars: Tensor) -> Tensor:
    """Gradient of the summed readout with respect to its inputs, (atoms, channels)."""
    inputs = [scalars]
    for layer in network:
        inputs.append(layer(inputs[-1]))
    gradient = torch.ones_like(inputs[-1])
    for layer, value in zip(reversed(network), reversed(inputs[:-1]), strict=True):
        if isinstance(layer, nn.Linear):
            gradient = gradient @ layer.weight
        else:
            gradient = torch.ops.aten.silu_backward(gradient, value)
    return gradient
