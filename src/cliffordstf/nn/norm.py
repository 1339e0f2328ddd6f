"""Invariant norms of tracks, and normalisation by them."""

import torch
from torch import Tensor, nn

from cliffordstf.algebra.stf import frobenius_squared
from cliffordstf.algebra.tracks import Layout, Track

EPSILON = 1e-8
"""Added under square roots: norms stay differentiable where a feature vanishes."""


def squared_norm(part: Tensor, track: Track) -> Tensor:
    """Invariant squared norm (atoms, channels) of one track (atoms, 2l+1, channels)."""
    if track.degree < 2:
        return part.square().sum(dim=1)
    return frobenius_squared(part, track.degree)


def norm(part: Tensor, track: Track) -> Tensor:
    """Smooth invariant norm (atoms, channels) of one track, sqrt(|x|² + ε)."""
    return (squared_norm(part, track) + EPSILON).sqrt()


NORM_FLOOR = 0.1
"""Added to the mean square in `TrackNorm`. With a tiny floor, such as 1e-8, every layer multiplies a track that
ought to
vanish by symmetry, and holds only rounding errors, by up to 10^4: after five layers an atom on a centre of inversion
would feel a force of order one."""


class TrackNorm(nn.Module):
    """Divide each track by the root mean square over channels of its norm, with a floor, then scale every channel.

    Large tracks come out with unit size; tiny ones are multiplied by three, never blown up.
    """

    def __init__(self, layout: Layout, channels: int) -> None:
        super().__init__()
        self.layout = layout
        self.scale = nn.Parameter(torch.ones(len(layout), channels))

    def forward(self, features: Tensor) -> Tensor:
        """(atoms, components, channels), same shape out."""
        parts = []
        for scale, (track, part) in zip(self.scale.unbind(0), self.layout.split(features).items(), strict=True):
            mean = squared_norm(part, track).mean(dim=1)
            parts.append(part * (mean + NORM_FLOOR).rsqrt()[:, None, None] * scale)
        return torch.cat(parts, dim=1)
