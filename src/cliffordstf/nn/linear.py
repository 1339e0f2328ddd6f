"""Linear maps over channels, one matrix per track: the only linear maps that commute with O(3)."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from cliffordstf.algebra.tracks import SCALAR, Layout
from cliffordstf.kernels import LinearPlan, LinearTerm, track_linear


class TrackLinear(nn.Module):
    """Block-diagonal linear map: every track has its own matrix over channels, scalars may have a bias.

    Weights start as N(0, 1/in_channels), so that unit variance goes to unit variance.
    """

    def __init__(self, layout: Layout, in_channels: int, out_channels: int, bias: bool = False) -> None:
        super().__init__()
        self.layout = layout
        self.weight = nn.Parameter(torch.randn(len(layout), in_channels, out_channels) / in_channels**0.5)
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias and SCALAR in layout else None
        self.plan = sum_plan(layout, [(layout, self)])

    def forward(self, features: Tensor) -> Tensor:
        """(atoms, components, in_channels) -> (atoms, components, out_channels)."""
        return linear_sum(self.plan, [(features, self)])


def sum_plan(target: Layout, terms: Sequence[tuple[Layout, TrackLinear]], scale: float = 1.0) -> LinearPlan:
    """Plan of `linear_sum` for maps that read features of these layouts; each must hold the tracks of its map."""
    return LinearPlan(
        tuple(
            LinearTerm(
                source.dims,
                tuple(
                    (source.slice(track).start, target.slice(track).start, track.dims, index)
                    for index, track in enumerate(linear.layout)
                ),
            )
            for source, linear in terms
        ),
        target.dims,
        scale,
    )


def linear_sum(plan: LinearPlan, terms: Sequence[tuple[Tensor, TrackLinear]]) -> Tensor:
    """Scale · Σ linear(features), biases (of unscaled plans) included, (atoms, components of the target, channels)."""
    result = track_linear(plan, [(features, linear.weight) for features, linear in terms])
    biases = [linear.bias for _, linear in terms if linear.bias is not None]
    if biases:
        result[:, 0] += sum(biases[1:], start=biases[0])
    return result


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
