"""Functions of the distance: bases, cutoff envelopes and the small networks on top of them.

Distances are in Å and have shape (edges,).
"""

from math import expm1, pi

import torch
from torch import Tensor, nn

from cliffordstf.nn.derivatives import with_jacobian
from cliffordstf.nn.dual import DualNetwork
from cliffordstf.nn.linear import mlp


def cosine_envelope(distances: Tensor, cutoff: float) -> Tensor:
    """(cos(πd/rc) + 1)/2: value and slope vanish at the cutoff, the second derivative does not."""
    return 0.5 * (torch.cos(distances * (pi / cutoff)) + 1) * (distances < cutoff)


def polynomial_envelope(distances: Tensor, cutoff: float, power: int) -> Tensor:
    """1 at zero; at the cutoff value, slope and curvature vanish.

    1 - (p+1)(p+2)/2 x^p + p(p+2) x^(p+1) - p(p+1)/2 x^(p+2) with x = d/rc and p = `power`.
    """
    x = distances / cutoff
    p = power
    value = 1 + x**p * (-(p + 1) * (p + 2) / 2 + x * (p * (p + 2) - x * (p * (p + 1) / 2)))
    return value * (x < 1)


def polynomial_envelope_slope(distances: Tensor, cutoff: float, power: int) -> Tensor:
    """Derivative of `polynomial_envelope`, 1/Å: -p(p+1)(p+2)/(2 rc) x^(p-1) (1 - x)²."""
    x = distances / cutoff
    p = power
    return -p * (p + 1) * (p + 2) / (2 * cutoff) * x ** (p - 1) * (1 - x).square() * (x < 1)


class GaussianBasis(nn.Module):
    """Gaussians centred evenly from 0 to the cutoff, as wide as their spacing; no weights.

    Scaled so that their mean square is one at any distance: neighbouring Gaussians overlap, and the sum of their
    squares is sqrt(π) before scaling.
    """

    centres: Tensor

    def __init__(self, size: int, cutoff: float) -> None:
        super().__init__()
        self.width = cutoff / (size - 1)
        self.scale = (size / pi**0.5) ** 0.5
        self.register_buffer("centres", torch.linspace(0, cutoff, size), persistent=False)

    def forward(self, distances: Tensor) -> Tensor:
        """(edges,) -> (edges, size)."""
        return torch.exp(-0.5 * ((distances[:, None] - self.centres) / self.width).square()) * self.scale


class BesselBasis(nn.Module):
    """sin(nπx)/x with x = d/rc for n = 1 … size, the radial solutions of a spherical well; no weights.

    Scaled to a mean square of about one at x = 0.3, among bonded neighbours.

    Args:
        size: How many.
        cutoff: Å.
        warp: Å. Instead of d the functions take a length that grows as 1 - exp(-d/warp) and is the cutoff where d is:
            they are fine at short distances, where energies change fast, and smooth at long ones. None for d itself.
    """

    orders: Tensor

    def __init__(self, size: int, cutoff: float, warp: float | None = None) -> None:
        super().__init__()
        self.cutoff, self.warp = cutoff, warp
        # Whole numbers are the same in every precision; multiples of π would keep that in which they were made.
        self.register_buffer("orders", torch.arange(1.0, size + 1), persistent=False)

    def forward(self, distances: Tensor) -> Tensor:
        """(edges,) -> (edges, size)."""
        x = self._share(distances)[:, None]
        return torch.sin(x * pi * self.orders) * (0.3 * 2**0.5 / x)

    def values_and_slopes(self, distances: Tensor) -> tuple[Tensor, Tensor]:
        """The functions and their derivatives, 1/Å, (edges,) -> (edges, size) each."""
        x = self._share(distances)[:, None]
        angle = x * pi * self.orders
        scale = 0.3 * 2**0.5 / x
        values = torch.sin(angle) * scale
        return values, (torch.cos(angle) * (scale * pi * self.orders) - values / x) * self._steepness(distances)

    def _share(self, distances: Tensor) -> Tensor:
        """x, from 0 to 1 at the cutoff."""
        if self.warp is None:
            return distances / self.cutoff
        return torch.expm1(distances / -self.warp) * (-1 / self._reach(self.warp))

    def _steepness(self, distances: Tensor) -> Tensor | float:
        """Derivative of x, 1/Å, (edges, 1)."""
        if self.warp is None:
            return 1 / self.cutoff
        return torch.exp(distances / -self.warp)[:, None] * (1 / (self.warp * self._reach(self.warp)))

    def _reach(self, warp: float) -> float:
        return -expm1(-self.cutoff / warp)


FIRST_SHIFTS = 0.5
"""Standard deviation of what an element adds to the first hidden layer before training."""


class RadialFunctions(nn.Module):
    """A few learned functions of the distance for every layer: one network on a Bessel basis, times the envelope.

    Every weight of a convolution is a linear combination of them, so their number, not the number of weights, sets
    what the network costs. Each of the two elements of a pair adds a vector of its own to the first hidden layer, so
    that a bond to hydrogen has other functions than one to carbon; an edge and its reverse still share theirs.

    Args:
        basis, cutoff, power: Of the Bessel basis and the polynomial envelope.
        width, depth: Of the network's hidden layers.
        functions: Functions for each layer.
        layers: How many layers share the network.
        elements: How many elements there are; 0 for functions of the distance alone.
        warp: Of the Bessel basis, Å, or None.
    """

    def __init__(
        self,
        basis: int,
        cutoff: float,
        power: int,
        width: int,
        depth: int,
        functions: int,
        layers: int,
        elements: int = 0,
        warp: float | None = None,
    ) -> None:
        super().__init__()
        self.basis = BesselBasis(basis, cutoff, warp)
        self.cutoff, self.power, self.layers = cutoff, power, layers
        self.network = mlp(basis, *[width] * depth, functions * layers)
        self.shifts = nn.Parameter(FIRST_SHIFTS * torch.randn(elements, width)) if elements else None

    def forward(self, distances: Tensor, ends: Tensor | None = None) -> tuple[Tensor, ...]:
        """Distances (pairs,) -> for each layer functions (pairs, functions).

        Args:
            distances: Å.
            ends: Element indices of both atoms, (pairs, 2); read if the functions know elements.
        """

        def function(lengths: Tensor) -> Tensor:
            return self._values(lengths, ends)

        if not distances.requires_grad or torch.compiler.is_compiling():
            values = function(distances[:, None])
        else:
            values = with_jacobian(distances[:, None], *self._values_and_slopes(distances.detach(), ends), function)
        return values.chunk(self.layers, dim=1)

    def shift(self, ends: Tensor | None) -> Tensor | None:
        """What the elements of pairs add to the first hidden layer, (pairs, width)."""
        if self.shifts is None:
            return None
        assert ends is not None
        return self.shifts.index_select(0, ends[:, 0]) + self.shifts.index_select(0, ends[:, 1])

    def _values(self, distances: Tensor, ends: Tensor | None) -> Tensor:
        values, shift = self.basis(distances[:, 0]), self.shift(ends)
        for number, layer in enumerate(self.network):
            values = layer(values)
            if number == 0 and shift is not None:
                values = values + shift
        return values * polynomial_envelope(distances, self.cutoff, self.power)

    def _values_and_slopes(self, distances: Tensor, ends: Tensor | None) -> tuple[Tensor, Tensor]:
        """Functions (pairs, all) and their slopes (pairs, all, 1): a slope goes through the network with its value."""
        values, slopes = self.basis.values_and_slopes(distances)
        shift = self.shift(ends)
        for number, layer in enumerate(self.network):
            if isinstance(layer, nn.Linear):
                values, slopes = layer(values), slopes @ layer.weight.mT
                if number == 0 and shift is not None:
                    values = values + shift
            else:
                values, slopes = _silu_with_slope(values, slopes)
        envelope = polynomial_envelope(distances, self.cutoff, self.power)[:, None]
        steepness = polynomial_envelope_slope(distances, self.cutoff, self.power)[:, None]
        return values * envelope, (slopes * envelope + values * steepness)[:, :, None]


class DualRadial:
    """Radial functions and their slopes, with the gradients of their weights.

    Args:
        radial: The functions.
    """

    def __init__(self, radial: RadialFunctions) -> None:
        self._radial, self._basis, self._layers = radial, radial.basis, radial.layers
        self._cutoff, self._power = radial.cutoff, radial.power
        self._network = DualNetwork(radial.network)

    @property
    def parameters(self) -> list[Tensor]:
        """The weights, in the order of the gradients that `backward` returns."""
        shifts = self._radial.shifts
        return self._network.parameters if shifts is None else [*self._network.parameters, shifts]

    def forward(self, distances: Tensor, ends: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Distances (pairs,), Å -> functions and their slopes, 1/Å, (layers, pairs, functions) each.

        `ends` as in `RadialFunctions`.
        """
        self._ends = ends
        values, slopes = self._network.forward(*self._basis.values_and_slopes(distances), self._radial.shift(ends))
        self._envelope = polynomial_envelope(distances, self._cutoff, self._power)[:, None]
        self._steepness = polynomial_envelope_slope(distances, self._cutoff, self._power)[:, None]
        slopes = torch.addcmul(slopes * self._envelope, values, self._steepness)
        return self._by_layer(values * self._envelope), self._by_layer(slopes)

    def _by_layer(self, values: Tensor) -> Tensor:
        return values.view(len(values), self._layers, -1).transpose(0, 1)

    def backward(self, of_values: Tensor, of_slopes: Tensor) -> list[Tensor]:
        """Gradients of functions and slopes (pairs, layers · functions) -> those of `parameters`."""
        of_network = torch.addcmul(of_values * self._envelope, of_slopes, self._steepness)
        found = self._network.backward(of_network, of_slopes * self._envelope)[1]
        shifts = self._radial.shifts
        if shifts is None:
            return found
        assert self._ends is not None
        of_shifts, of_hidden = torch.zeros_like(shifts), self._network.first_gradient
        for end in self._ends.unbind(1):
            of_shifts.index_add_(0, end, of_hidden)
        return [*found, of_shifts]


def _silu_with_slope(values: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """SiLU of values, and what it makes of their slopes."""
    gate = torch.sigmoid(values)
    values = values * gate
    return values, slopes * (gate + values * (1 - gate))
