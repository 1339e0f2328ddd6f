"""Functions of the distance: bases, cutoff envelopes and the small networks on top of them.

Distances are in Å and have shape (edges,).
"""

from math import pi

import torch
from torch import Tensor, nn

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

    Scaled to a mean square of about one at x = 0.3, where bonded neighbours sit.
    """

    orders: Tensor

    def __init__(self, size: int, cutoff: float) -> None:
        super().__init__()
        self.cutoff = cutoff
        self.register_buffer("orders", torch.arange(1, size + 1) * pi, persistent=False)

    def forward(self, distances: Tensor) -> Tensor:
        """(edges,) -> (edges, size)."""
        x = distances[:, None] / self.cutoff
        return torch.sin(x * self.orders) * (0.3 * 2**0.5 / x)


class PathWeights(nn.Module):
    """Radial weights for every path and channel: an MLP on a Bessel basis, times a C2-smooth envelope."""

    def __init__(self, basis: int, width: int, depth: int, rows: int, channels: int) -> None:
        super().__init__()
        self.rows, self.channels = rows, channels
        self.network = mlp(basis, *[width] * depth, rows * channels)

    def forward(self, basis: Tensor, envelope: Tensor) -> Tensor:
        """Basis (edges, size) and envelope (edges,) -> weights (edges, rows, channels)."""
        weights = self.network(basis) * envelope[:, None]
        return weights.unflatten(1, (self.rows, self.channels))
