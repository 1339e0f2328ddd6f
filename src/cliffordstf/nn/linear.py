"""Linear maps over channels, one matrix per track: the only linear maps that commute with O(3)."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from cliffordstf.algebra.tracks import SCALAR, Layout, Track


class TrackLinear(nn.Module):
    """Block-diagonal linear map: every track has its own matrix over channels, scalars may have a bias.

    Weights start as N(0, 1/in_channels), so that unit variance goes to unit variance.
    """

    def __init__(self, layout: Layout, in_channels: int, out_channels: int, bias: bool = False) -> None:
        super().__init__()
        self.layout = layout
        self.weight = nn.Parameter(torch.randn(len(layout), in_channels, out_channels) / in_channels**0.5)
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias and SCALAR in layout else None

    def tracks(self, features: Tensor, layout: Layout) -> dict[Track, Tensor]:
        """The mapped tracks (atoms, 2l+1, out_channels), read from features of a layout that holds them all."""
        mapped = {}
        parts = layout.split(features)
        for matrix, track in zip(self.weight.unbind(0), self.layout, strict=True):
            part = parts[track] @ matrix
            mapped[track] = part + self.bias if self.bias is not None and track == SCALAR else part
        return mapped

    def forward(self, features: Tensor) -> Tensor:
        """(atoms, components, in_channels) -> (atoms, components, out_channels)."""
        return torch.cat(list(self.tracks(features, self.layout).values()), dim=1)


def merge(layout: Layout, *terms: dict[Track, Tensor]) -> Tensor:
    """Sum features that are given track by track; every track of the layout must occur in at least one term."""
    parts = []
    for track in layout:
        present = [term[track] for term in terms if track in term]
        parts.append(sum(present[1:], start=present[0]))
    return torch.cat(parts, dim=1)


def restrict(features: Tensor, layout: Layout, wanted: Layout) -> Tensor:
    """Keep the tracks of `wanted`; tracks that `layout` does not hold come out as zeros."""
    if layout == wanted:
        return features
    atoms, _, channels = features.shape
    parts = layout.split(features)
    return torch.cat([parts[t] if t in parts else features.new_zeros(atoms, t.dims, channels) for t in wanted], dim=1)


SILU_GAIN = 1.6768
"""1 / sqrt(E[silu(x)²]) for standard normal x: what restores unit variance after SiLU."""

SIGMOID_GAIN = 1.8462
"""1 / sqrt(E[sigmoid(x)²]) for standard normal x."""


def dense(inputs: int, outputs: int, bias: bool = True, gain: float = 1.0) -> nn.Linear:
    """Linear layer whose weights start as N(0, gain²/inputs) and whose bias starts at zero: unit variance stays."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=gain / inputs**0.5)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def mlp(*widths: int, final_bias: bool = True) -> nn.Sequential:
    """Fully connected layers with SiLU between them, none after the last; unit variance in, unit variance out."""
    layers: list[nn.Module] = []
    for index, (inputs, outputs) in enumerate(pairwise(widths)):
        if index:
            layers.append(nn.SiLU())
        last = index == len(widths) - 2
        layers.append(dense(inputs, outputs, bias=final_bias or not last, gain=SILU_GAIN if index else 1.0))
    return nn.Sequential(*layers)
