"""A layer of the default model written out: every operator and its gradient, without autograd."""

from collections.abc import Iterator
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from cliffordstf.algebra.tracks import SCALAR
from cliffordstf.data.batch import Batch
from cliffordstf.kernels.native.convolution import EdgeConvolution
from cliffordstf.kernels.native.gate import ScalarGate
from cliffordstf.kernels.native.kernel import padded, padded_channels
from cliffordstf.kernels.native.linear import PreparedLinear
from cliffordstf.kernels.native.node import NodeBilinear
from cliffordstf.model.tape import Tape
from cliffordstf.nn.dual import value_and_gradient
from cliffordstf.nn.interaction import DefaultInteraction
from cliffordstf.nn.linear import SILU_GAIN

Part = slice


def chunks(atoms: int, size: int) -> Iterator[Part]:
    """Atoms in parts of a size."""
    for start in range(0, max(atoms, 1), size):
        yield slice(start, min(start + size, atoms))


class WrittenLayer:
    """A layer and its readout as explicit operators, with weights ready for both directions.

    Channels are padded to whole vectors once, in the weights; everything in between is as wide.
    """

    def __init__(self, layer: DefaultInteraction, readout: nn.Sequential) -> None:
        self.readout, self.layout = readout, layer.layout
        mixing = layer.convolution.mixing
        width = padded_channels(mixing.shape[2], mixing.dtype)
        self.mixing = _padded(mixing, width)
        self.convolution = EdgeConvolution.from_key(layer.convolution.plan.key)
        self.products = [NodeBilinear.from_key(plan.key) for plan in layer.product.plans]
        self.weights = [_padded(weight, width) for weight in layer.product.weights]
        self.up = PreparedLinear(layer.linear_up.plan, [layer.linear_up.weight])
        self.down = PreparedLinear(layer.linear_aggregate.plan, [layer.linear_aggregate.weight])
        self.mix = PreparedLinear(layer.mix, [linear.weight for linear in layer._linears()])
        self.update = PreparedLinear(layer.update, [layer.linear_out.weight, layer.skip.weight])
        gate = layer.gate
        has_gates = gate.weight is not None and gate.bias is not None
        self.logits = PreparedLinear(gate.logits, [cast("Tensor", gate.weight)]) if has_gates else None
        self.gating = ScalarGate.from_key(gate.plan.key) if has_gates else None
        self.bias = _padded(cast("Tensor", gate.bias), width) if has_gates else mixing.new_zeros(0)
        powers = sum(power.dims for power in layer.product.powers)
        kept = powers + 2 * self.layout.dims + layer.linear_up.layout.dims + gate.logits.target_dims
        self.bytes_per_atom = kept * width * mixing.element_size()

    def aggregate(self, sending: Tensor, radial: Tensor, directions: Tensor, batch: Batch, tape: Tape) -> Tensor:
        """The convolution of what the atoms send, (atoms, components, channels)."""
        inputs = [sending, radial, self.mixing, directions]
        return tape.fill(self.convolution.prepare_forward(inputs, batch.edges))

    def aggregate_backward(
        self,
        gradient: Tensor,
        sending: Tensor,
        radial: Tensor,
        directions: Tensor,
        batch: Batch,
        with_source: bool,
        tape: Tape,
    ) -> tuple[Tensor | None, Tensor, Tensor]:
        """Gradients with respect to features (if asked for), radial functions and directions."""
        inputs = [sending, radial, self.mixing, directions]
        wanted = [with_source, True, False, True]
        found = tape.fill(self.convolution.prepare_backward(gradient, inputs, batch.edges, wanted))
        sent, functions, _, turned = found
        assert functions is not None
        assert turned is not None
        source = None if sent is None else tape.fill(self.up.prepare_backward(sent))[0]
        return source, functions, turned

    def outputs(
        self,
        aggregate: Tensor,
        features: Tensor,
        species: Tensor,
        energies: Tensor,
        parts: list[Part],
        is_kept: bool,
        tape: Tape,
    ) -> tuple[Tensor, "list[Stage]"]:
        """Output of the stage, part by part, and what was made on the way if it is to be kept; adds to the energies."""
        if len(parts) == 1:
            stage = Stage(self, aggregate, features, species, tape)
            tape.do(partial(energies.add_, stage.energies))
            return stage.output, [stage]
        stages: list[Stage] = []
        result = aggregate.new_empty(len(species), self.layout.dims, aggregate.shape[2])
        for part in parts:
            stage = Stage(self, aggregate[part], features[part], species[part], tape)
            tape.do(partial(result[part].copy_, stage.output))
            tape.do(partial(energies[part].add_, stage.energies))
            if is_kept:
                stages.append(stage)
        return result, stages

    def gradients(
        self,
        aggregate: Tensor,
        features: Tensor,
        species: Tensor,
        gradient: Tensor | None,
        parts: list[Part],
        stages: "list[Stage]",
        tape: Tape,
    ) -> tuple[Tensor, Tensor]:
        """Gradients of the stage, part by part; those given, and the aggregate, may be overwritten."""
        if len(parts) == 1:
            return stages[0].backward(gradient, tape)
        result = torch.empty_like(features)
        for number, part in enumerate(parts):
            stage = stages[number] if stages else Stage(self, aggregate[part], features[part], species[part], tape)
            of_aggregate, of_features = stage.backward(None if gradient is None else gradient[part], tape)
            tape.do(partial(aggregate[part].copy_, of_aggregate))
            tape.do(partial(result[part].copy_, of_features))
        return aggregate, result


class Stage:
    """Products, mixing, gate, update and readout of some atoms, with what their gradient needs."""

    def __init__(self, owner: WrittenLayer, aggregate: Tensor, features: Tensor, species: Tensor, tape: Tape) -> None:
        self.owner, self.species = owner, species.contiguous()
        first = tape.fill(owner.down.prepare_forward([aggregate]))
        self.powers = [first]
        for product, weights in zip(owner.products, owner.weights, strict=True):
            power = product.prepare_forward([first, self.powers[-1], weights], [self.species])
            self.powers.append(tape.fill(power))
        self.mixed = tape.fill(owner.mix.prepare_forward([*self.powers, features]))
        self.logits = None if owner.logits is None else tape.fill(owner.logits.prepare_forward([self.mixed]))
        self.output = tape.fill(owner.update.prepare_forward([self._gated(tape), features]))
        self.energies = self.output.new_empty(len(species))
        self.slopes = torch.zeros_like(self.output[:, 0])
        tape.do(self._read_out)

    def _gated(self, tape: Tape) -> Tensor:
        if self.owner.gating is not None and self.logits is not None:
            return tape.fill(self.owner.gating.prepare_forward([self.mixed, self.logits, self.owner.bias]))
        gated = torch.empty_like(self.mixed)
        tape.do(lambda: torch.mul(nn.functional.silu(self.mixed), SILU_GAIN, out=gated))
        return gated

    @torch.no_grad()
    def _read_out(self) -> None:
        """Energies and, at once, their gradient with respect to the scalars of the output, (atoms, channels)."""
        network = self.owner.readout
        channels = cast("nn.Linear", network[0]).in_features
        energies, gradient = value_and_gradient(network, self._scalars(self.output)[:, :channels])
        self.energies.copy_(energies)
        self.slopes[:, :channels] = gradient

    def _scalars(self, output: Tensor) -> Tensor:
        return self.owner.layout.take(output, SCALAR)[:, 0]

    def backward(self, gradient: Tensor | None, tape: Tape) -> tuple[Tensor, Tensor]:
        """Gradients with respect to the aggregate and the features, from that of the output (and of the energies)."""
        owner = self.owner
        if gradient is None:
            gradient = torch.zeros_like(self.output)
            tape.do(partial(self._scalars(gradient).copy_, self.slopes))
        else:
            tape.do(partial(self._scalars(gradient).add_, self.slopes))
        gated, features = tape.fill(owner.update.prepare_backward(gradient))
        *powers, own = tape.fill(owner.mix.prepare_backward(self._gate_backward(gated, tape)))
        tape.do(partial(features.add_, own))
        return tape.fill(owner.down.prepare_backward(self._products_backward(powers, tape)))[0], features

    def _gate_backward(self, gradient: Tensor, tape: Tape) -> Tensor:
        owner = self.owner
        if owner.gating is None or owner.logits is None or self.logits is None:
            result = torch.empty_like(gradient)
            silu_backward = torch.ops.aten.silu_backward
            tape.do(lambda: torch.mul(silu_backward(gradient, self.mixed), SILU_GAIN, out=result))
            return result
        inputs = [self.mixed, self.logits, owner.bias]
        mixed, logits, _ = tape.fill(owner.gating.prepare_backward(gradient, inputs))
        tape.do(partial(mixed.add_, tape.fill(owner.logits.prepare_backward(logits))[0]))
        return mixed

    def _products_backward(self, gradients: list[Tensor], tape: Tape) -> Tensor:
        """From the gradients of the powers to that of the first power, which is an operand of every product."""
        first = gradients[0]
        for index in reversed(range(len(self.owner.products))):
            inputs = [self.powers[0], self.powers[index], self.owner.weights[index]]
            product = self.owner.products[index]
            wanted = [True, True, False]
            found = product.prepare_backward(gradients[index + 1], inputs, [self.species], wanted)
            left, right, _ = tape.fill(found)
            assert left is not None
            assert right is not None
            tape.do(partial(first.add_, left))
            tape.do(partial(gradients[index].add_, right))
        return first


def _padded(tensor: Tensor, width: int) -> Tensor:
    result = padded(tensor.detach(), width)
    assert result is not None
    return result.contiguous()
