"""Invariant norms of tracks, and normalisation by them."""

from functools import cache

import torch
from torch import Tensor, nn

from cliffordstf.algebra.couplings import track_coupling
from cliffordstf.algebra.tracks import SCALAR, Layout, Track
from cliffordstf.kernels import NodePath, NodePlan, node_bilinear
from cliffordstf.nn.linear import widen

EPSILON = 1e-8
"""Added under square roots: norms stay differentiable where a feature vanishes."""


class TrackNorms(nn.Module):
    """Invariant norms of all tracks of a feature, and factors per track back on its components; no weights."""

    track_of_component: Tensor

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        paths = tuple(
            NodePath(track_coupling(track, track, SCALAR), layout.slice(track).start, layout.slice(track).start, index)
            for index, track in enumerate(layout)
        )
        self.plan = NodePlan(paths, layout.dims, layout.dims, len(layout))
        components = [index for index, track in enumerate(layout) for _ in range(track.dims)]
        self.register_buffer("track_of_component", torch.tensor(components), persistent=False)

    def squared(self, features: Tensor) -> Tensor:
        """(atoms, components, channels) -> squared norms (atoms, tracks, channels)."""
        return node_bilinear(self.plan, features, features)

    def forward(self, features: Tensor) -> Tensor:
        """(atoms, components, channels) -> smooth norms sqrt(|x|² + ε), (atoms, tracks, channels)."""
        return (self.squared(features) + EPSILON).sqrt()

    def multiply(self, features: Tensor, factors: Tensor) -> Tensor:
        """Features (atoms, components, channels) times a factor for each track, (atoms, tracks, channels)."""
        return features * factors.index_select(1, self.track_of_component)


def norm(part: Tensor, track: Track) -> Tensor:
    """Smooth invariant norm (atoms, channels) of one track (atoms, 2l+1, channels), sqrt(|x|² + ε)."""
    return (node_bilinear(_square(track), part, part)[:, 0] + EPSILON).sqrt()


@cache
def _square(track: Track) -> NodePlan:
    return NodePlan((NodePath(track_coupling(track, track, SCALAR), 0, 0, 0),), track.dims, track.dims, 1)


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
        self.norms = TrackNorms(layout)
        self.scale = nn.Parameter(torch.ones(len(layout), channels))

    def forward(self, features: Tensor) -> Tensor:
        """(atoms, components, channels), same shape out; channels beyond those of the layer are zero and stay so."""
        width, channels = features.shape[2], self.scale.shape[1]
        mean = self.norms.squared(features).sum(dim=2, keepdim=True) / channels
        scale = widen(self.scale, self.scale.shape[0], width)
        return self.norms.multiply(features, (mean + NORM_FLOOR).rsqrt() * scale)
