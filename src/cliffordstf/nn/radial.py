"""Functions of the distance: bases, cutoff envelopes and the small networks on top of them.

Distances are in Å and have shape (edges,).
"""

from math import expm1, pi
from typing import Any

import torch
from torch import Tensor, nn

from cliffordstf.kernels import Recording, Symbol, ValueShape
from cliffordstf.nn.linear import mlp, plain_weights


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

    def _share(self, distances: Tensor) -> Tensor:
        """x, from 0 to 1 at the cutoff."""
        if self.warp is None:
            return distances / self.cutoff
        return torch.expm1(distances / -self.warp) * (-1 / self._reach(self.warp))

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
            ends: Element indices of both atoms, (pairs, 2); read if the functions depend on elements.
        """
        if isinstance(distances, Symbol):
            return self._recorded(distances.recording, distances)
        values = self.basis(distances)
        for number, layer in enumerate(self.network):
            values = layer(values)
            if number == 0 and self.shifts is not None:
                assert isinstance(ends, Tensor)
                values = values + self.shifts.index_select(0, ends[:, 0]) + self.shifts.index_select(0, ends[:, 1])
        values = values * polynomial_envelope(distances, self.cutoff, self.power)[:, None]
        return values.chunk(self.layers, dim=1)

    def _recorded(self, recording: Recording, distances: Symbol) -> Any:
        """One operator, whose last result, the slopes of all functions, only the operator itself reads."""
        weights = plain_weights(self.network)
        every = len(weights[-1])
        shapes = [ValueShape("pairs", every // self.layers)] * self.layers
        numbers = {
            "basis": len(self.basis.orders),
            "cutoff": self.cutoff,
            "warp": self.basis.warp or 0.0,
            "power": self.power,
        }
        shifts = [] if self.shifts is None else [self.shifts]
        found = recording.apply(
            "radial_functions", [distances], [*shapes, ValueShape("pairs", every)], [*weights, *shifts], numbers
        )
        return tuple(found[:-1])
