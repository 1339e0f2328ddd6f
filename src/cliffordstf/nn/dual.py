"""Networks on values that carry a tangent, and the way back through them, written out.

A network whose derivative is trained on, like one of distances, takes values together with their slopes. Autograd
would walk through it twice, in hundreds of small operations; written out it is a dozen.
"""

from typing import cast

import torch
from torch import Tensor, nn

_silu_slopes = torch.ops.aten.silu_backward
"""(tangents, values) -> tangents · silu'(values)."""


def _silu_curvature(values: Tensor) -> Tensor:
    """silu''(x) = s (1 - s) (2 + x (1 - 2 s)) with s the sigmoid of x."""
    gate = torch.sigmoid(values)
    return gate * (1 - gate) * (2 + values * (1 - 2 * gate))


def is_plain(network: nn.Sequential) -> bool:
    """Whether a network is what can be written out: linear layers with biases, and SiLU.

    It may no longer be, when a user has put a layer in place of another.
    """
    return all(
        type(layer) is nn.SiLU or (type(layer) is nn.Linear and isinstance(layer.bias, nn.Parameter))
        for layer in network
    )


class DualNetwork:
    """A plain network on values and tangents. Nothing here is traced by autograd.

    Args:
        network: See `is_plain`.

    Attributes:
        first_gradient: With respect to the values of the first layer, (rows, width); of the last `backward`.
    """

    first_gradient: Tensor

    def __init__(self, network: nn.Sequential) -> None:
        self._network = network
        self._inputs: list[tuple[Tensor, Tensor]] = []

    @property
    def parameters(self) -> list[Tensor]:
        """Weight and bias of every layer, in order."""
        linears = (layer for layer in self._network if isinstance(layer, nn.Linear))
        return [parameter for layer in linears for parameter in (layer.weight, layer.bias)]

    def forward(self, values: Tensor, tangents: Tensor, shift: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(rows, inputs) each -> (rows, outputs) each. What `backward` needs is kept.

        A shift (rows, width) is added to the values of the first layer.
        """
        self._inputs = []
        for layer in self._network:
            self._inputs.append((values, tangents))
            if isinstance(layer, nn.Linear):
                values, tangents = torch.addmm(layer.bias, values, layer.weight.mT), tangents @ layer.weight.mT
                if shift is not None and len(self._inputs) == 1:
                    values += shift
            else:
                values, tangents = nn.functional.silu(values), _silu_slopes(tangents, values)
        return values, tangents

    def backward(self, of_values: Tensor, of_tangents: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the outputs (rows, outputs) -> that of the input values, and those of `parameters`."""
        found: list[Tensor] = []
        for layer, (values, tangents) in zip(reversed(list(self._network)), reversed(self._inputs), strict=True):
            if isinstance(layer, nn.Linear):
                self.first_gradient = of_values  # the first layer comes last
                weight = torch.addmm(of_values.mT @ values, of_tangents.mT, tangents)
                found += [of_values.sum(dim=0), weight]
                of_values, of_tangents = of_values @ layer.weight, of_tangents @ layer.weight
            else:
                curved = of_tangents * tangents * _silu_curvature(values)
                of_values, of_tangents = _silu_slopes(of_values, values) + curved, _silu_slopes(of_tangents, values)
        return of_values, found[::-1]


def value_and_gradient(network: nn.Sequential, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The one output of a plain network, (rows,), and its gradient with respect to the inputs, (rows, inputs)."""
    known = [inputs]
    for layer in network:
        known.append(layer(known[-1]))
    gradient = cast("nn.Linear", network[-1]).weight
    for layer, value in zip(reversed(list(network)[:-1]), reversed(known[:-2]), strict=True):
        if isinstance(layer, nn.Linear):
            gradient = gradient @ layer.weight
        else:
            gradient = _silu_slopes(gradient.expand_as(value), value)
    return known[-1][:, 0], gradient
