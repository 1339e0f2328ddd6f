"""The default model without autograd: energies and their gradient for dynamics, relaxation and large systems.

Every operator has its gradient at hand, so the backward pass is written out. That saves what autograd costs on small
systems, and memory on large ones: of the stages that concern each atom alone only the inputs are kept, and what lies
between is made again, a few thousand atoms at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from cliffordstf.algebra.stf import stf_powers
from cliffordstf.algebra.tracks import SCALAR
from cliffordstf.data.batch import Batch
from cliffordstf.kernels import kernel_name
from cliffordstf.kernels.native.edge import EdgeConvolution
from cliffordstf.kernels.native.gate import ScalarGate
from cliffordstf.kernels.native.linear import TrackLinearSum
from cliffordstf.kernels.native.node import NodeBilinear
from cliffordstf.kernels.plan import LinearPlan
from cliffordstf.model.default import DefaultModel
from cliffordstf.nn.interaction import DefaultInteraction
from cliffordstf.nn.linear import SILU_GAIN

CHUNK = 2048
"""Atoms that go through the stages of a layer together, when there are more than that."""


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
def pair_gradients(model: DefaultModel, batch: Batch, species: Tensor, chunk: int = CHUNK) -> PairGradients:
    """Atomic energies and the gradient of their sum."""
    vectors = batch.pair_vectors().to(model.embedding.weight.dtype)
    distances = vectors.norm(dim=1)
    unit = vectors / distances[:, None]
    values, slopes = model.radial._values_and_slopes(distances)
    functions = [part.contiguous() for part in values.chunk(model.config.layers, dim=1)]
    directions, turns = stf_powers(unit, model.config.lmax, unit=True)
    directions = directions.contiguous()
    layers = [
        _Layer(cast("DefaultInteraction", layer), cast("nn.Sequential", readout))
        for layer, readout in zip(model.layers, model.layer_readouts, strict=True)
    ]
    features = [model.embedding(species)[:, None]]
    sums: list[Tensor] = []
    kept: list[list[_Stage]] = []
    energies = vectors.new_zeros(species.shape[0])
    parts = list(_chunks(species.shape[0], chunk))
    for layer, radial in zip(layers, functions, strict=True):
        sums.append(layer.aggregate(features[-1], radial, directions, batch))
        stages = [layer.stage(sums[-1][part], features[-1][part], species[part]) for part in parts]
        energies += torch.cat([stage.energies for stage in stages])
        features.append(torch.cat([stage.output for stage in stages]) if len(stages) > 1 else stages[0].output)
        # With one chunk everything is kept; with several, what lies between is made again on the way back.
        kept.append(stages if len(stages) == 1 else [])
        del stages
    gradient: Tensor | None = None
    radial_gradients: list[Tensor] = []
    direction_gradient = torch.zeros_like(directions)
    for index in reversed(range(len(layers))):
        layer, source = layers[index], features[index]
        aggregate = sums.pop()
        features.pop()
        aggregate_gradient, source_gradient = torch.empty_like(aggregate), torch.empty_like(source)
        for number, part in enumerate(parts):
            found = kept[index]
            stage = found[number] if found else layer.stage(aggregate[part], source[part], species[part])
            aggregate_gradient[part], source_gradient[part] = stage.backward(
                None if gradient is None else gradient[part]
            )
        kept.pop()
        del aggregate
        sent_gradient, radial_gradient, turned = layer.aggregate_backward(
            aggregate_gradient, source, functions[index], directions, batch, with_source=index > 0
        )
        radial_gradients.append(radial_gradient)
        direction_gradient += turned
        gradient = source_gradient + sent_gradient if sent_gradient is not None else None
    steepness = (torch.cat(radial_gradients[::-1], dim=1) * slopes[:, :, 0]).sum(dim=1)
    turn = (turns @ direction_gradient[:, :, None])[:, :, 0]
    tangential = turn - unit * (turn * unit).sum(dim=1, keepdim=True)
    return PairGradients(energies, steepness[:, None] * unit + tangential / distances[:, None])


def _chunks(atoms: int, size: int) -> Iterator[slice]:
    for start in range(0, max(atoms, 1), size):
        yield slice(start, min(start + size, atoms))


class _Layer:
    """A layer and its readout as explicit operators."""

    def __init__(self, layer: DefaultInteraction, readout: nn.Sequential) -> None:
        self.layer, self.readout = layer, readout
        self.convolution = EdgeConvolution.from_key(layer.convolution.plan.key)
        self.products = [NodeBilinear.from_key(plan.key) for plan in layer.product.plans]
        self.weights = list(layer.product.weights)
        self.linears = [linear.weight for linear in layer._linears()]

    def _sent(self, features: Tensor) -> Tensor:
        return _linear(self.layer.linear_up.plan).forward([features, self.layer.linear_up.weight], ())

    def aggregate(self, features: Tensor, radial: Tensor, directions: Tensor, batch: Batch) -> Tensor:
        """The convolution, (atoms, components, channels)."""
        inputs = [self._sent(features), radial, self.layer.convolution.mixing, directions]
        return self.convolution.forward(inputs, batch.edges)

    def aggregate_backward(
        self, gradient: Tensor, features: Tensor, radial: Tensor, directions: Tensor, batch: Batch, with_source: bool
    ) -> tuple[Tensor | None, Tensor, Tensor]:
        """Gradients with respect to features (if asked for), radial functions and directions."""
        inputs = [self._sent(features), radial, self.layer.convolution.mixing, directions]
        wanted = [with_source, True, False, True]
        sent, functions, _, turned = self.convolution.backward(gradient, inputs, batch.edges, wanted)
        assert functions is not None
        assert turned is not None
        if sent is None:
            return None, functions, turned
        up = self.layer.linear_up
        return _linear(up.plan).backward(sent, [features, up.weight], (), [True, False])[0], functions, turned

    def stage(self, aggregate: Tensor, features: Tensor, species: Tensor) -> "_Stage":
        """What happens to each atom by itself."""
        return _Stage(self, aggregate, features, species)


class _Stage:
    """Products, mixing, gate, update and readout of some atoms, with what their gradient needs."""

    def __init__(self, owner: _Layer, aggregate: Tensor, features: Tensor, species: Tensor) -> None:
        layer = owner.layer
        self.owner, self.species, self.features = owner, species.contiguous(), features
        self.aggregate = aggregate
        first = _linear(layer.linear_aggregate.plan).forward([aggregate, layer.linear_aggregate.weight], ())
        self.powers = [first]
        for product, weights in zip(owner.products, owner.weights, strict=True):
            self.powers.append(product.forward([first, self.powers[-1], weights], [self.species]))
        self.mixed = _linear(layer.mix).forward(self._terms(), ())
        gate = layer.gate
        if gate.weight is None or gate.bias is None:
            self.logits = None
            gated = nn.functional.silu(self.mixed) * SILU_GAIN
        else:
            self.logits = _linear(gate.logits).forward([self.mixed, gate.weight], ())
            gated = ScalarGate.from_key(gate.plan.key).forward([self.mixed, self.logits, gate.bias], ())
        self.gated = gated
        self.output = _linear(layer.update).forward([gated, layer.linear_out.weight, features, layer.skip.weight], ())
        self.scalars = layer.layout.take(self.output, SCALAR)[:, 0]
        self.energies = owner.readout(self.scalars)[:, 0]

    def _terms(self) -> list[Tensor]:
        features = [*self.powers, self.features]
        return [tensor for pair in zip(features, self.owner.linears, strict=True) for tensor in pair]

    def backward(self, gradient: Tensor | None) -> tuple[Tensor, Tensor]:
        """Gradients with respect to the aggregate and the features, from that of the output (and of the energies)."""
        owner, layer = self.owner, self.owner.layer
        total = torch.zeros_like(self.output) if gradient is None else gradient.clone()
        total[:, layer.layout.slice(SCALAR).start] += _readout_gradient(owner.readout, self.scalars)
        update = [self.gated, layer.linear_out.weight, self.features, layer.skip.weight]
        gated, _, features, _ = _linear(layer.update).backward(total, update, (), [True, False, True, False])
        assert gated is not None
        assert features is not None
        mixed = self._gate_backward(gated)
        terms = self._terms()
        wanted = [index % 2 == 0 for index in range(len(terms))]
        *powers, own = _linear(layer.mix).backward(mixed, terms, (), wanted)[::2]
        assert own is not None
        features += own
        first = self._products_backward([power for power in powers if power is not None])
        linear = layer.linear_aggregate
        aggregate = _linear(linear.plan).backward(first, [self.aggregate, linear.weight], (), [True, False])[0]
        assert aggregate is not None
        return aggregate, features

    def _gate_backward(self, gradient: Tensor) -> Tensor:
        gate = self.owner.layer.gate
        if gate.weight is None or gate.bias is None or self.logits is None:
            sigmoid = torch.sigmoid(self.mixed)
            return gradient * (sigmoid + self.mixed * sigmoid * (1 - sigmoid)) * SILU_GAIN
        inputs = [self.mixed, self.logits, gate.bias]
        mixed, logits, _ = ScalarGate.from_key(gate.plan.key).backward(gradient, inputs, (), [True, True, False])
        assert mixed is not None
        assert logits is not None
        through = _linear(gate.logits).backward(logits, [self.mixed, gate.weight], (), [True, False])[0]
        assert through is not None
        mixed += through
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


def _linear(plan: LinearPlan) -> TrackLinearSum:
    return TrackLinearSum.from_key(plan.key)


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
            sigmoid = torch.sigmoid(value)
            gradient = gradient * (sigmoid + value * sigmoid * (1 - sigmoid))
    return gradient
