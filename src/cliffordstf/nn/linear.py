"""Linear maps over channels, one matrix per track: the only linear maps that commute with O(3)."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from cliffordstf.algebra.tracks import SCALAR, Layout
from cliffordstf.kernels import AS_IT_IS, LinearPlan, LinearTerm, ScheduleError, track_linear


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


def sum_plan(
    target: Layout, terms: Sequence[tuple[Layout, TrackLinear]], scale: float = 1.0, added: Layout | None = None
) -> LinearPlan:
    """Plan of `linear_sum` for maps that read features of these layouts; each must hold the tracks of its map.

    Of a feature that is added as it is, the tracks count that the target has.
    """
    parts = [
        LinearTerm(
            source.dims,
            tuple(
                (source.slice(track).start, target.slice(track).start, track.dims, index)
                for index, track in enumerate(linear.layout)
            ),
        )
        for source, linear in terms
    ]
    if added is not None:
        kept = [track for track in added if track in target]
        tracks = tuple((added.slice(t).start, target.slice(t).start, t.dims, AS_IT_IS) for t in kept)
        parts.append(LinearTerm(added.dims, tracks))
    return LinearPlan(tuple(parts), target.dims, scale)


def linear_sum(plan: LinearPlan, terms: Sequence[tuple[Tensor, TrackLinear]], added: Tensor | None = None) -> Tensor:
    """Scale · (Σ linear(features) + added), biases (of unscaled plans) included; see `matrix_sum`."""
    biases = [linear.bias for _, linear in terms if linear.bias is not None]
    bias = sum(biases[1:], start=biases[0]) if biases else None
    return matrix_sum(plan, [(features, linear.weight) for features, linear in terms], bias, added)


def matrix_sum(
    plan: LinearPlan,
    terms: Sequence[tuple[Tensor, Tensor]],
    bias: Tensor | None = None,
    added: Tensor | None = None,
) -> Tensor:
    """Scale · (Σ features · matrices + added) + bias on the scalars.

    Args:
        plan: From `sum_plan`.
        terms: Features (atoms, components, in) and matrices (tracks, in, out). Features may be wider than matrices, by
            channels that are zero; these come out as zeros.
        bias: (out,).
        added: What is added as it is.

    Returns:
        (atoms, components of the target, out).
    """
    operands = [(features, _as_wide(matrices, features.shape[2])) for features, matrices in terms]
    if added is not None:
        operands.append((added, operands[0][1][:0]))
    result = track_linear(plan, operands)
    if bias is not None:
        result[:, 0] += widen(bias[None], 1, result.shape[2])[0]
    return result


def _as_wide(matrices: Tensor, width: int) -> Tensor:
    _, inputs, outputs = matrices.shape
    return widen(matrices, width, outputs + width - inputs)


VECTOR_WIDTH = 16
"""Channels that compiled kernels take at a time; each of them copies features whose width is no multiple of it."""


def whole_vectors(channels: int) -> int:
    """Channels, rounded up to what kernels take without a copy."""
    return -(-channels // VECTOR_WIDTH) * VECTOR_WIDTH


def widen(matrices: Tensor, rows: int, columns: int) -> Tensor:
    """Matrices (…, in, out) with zeros in new rows and columns."""
    missing = (0, columns - matrices.shape[-1], 0, rows - matrices.shape[-2])
    return pad(matrices, missing) if any(missing) else matrices


def stacked(layers: Sequence[nn.Linear], rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Matrices (layers, in, out) and biases (layers, 1, out) of several maps, widened to rows and columns."""
    matrices = torch.stack([layer.weight.mT for layer in layers])
    biases = torch.stack([layer.bias for layer in layers])[:, None]
    return widen(matrices, rows, columns), widen(biases, 1, columns)


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


def plain_weights(network: nn.Sequential) -> list[Tensor]:
    """Weight and bias of every layer of a network of linear layers with SiLU between them.

    Raises:
        ScheduleError: It is another network.
    """
    layers = [layer for layer in network if type(layer) is nn.Linear and layer.bias is not None]
    wanted = [type(layer) for pair in layers for layer in (pair, nn.SiLU())][:-1]
    if [type(layer) for layer in network] != wanted:
        raise ScheduleError(
            "a network of the model is not made of linear layers with biases and SiLU between them, so only autograd "
            "can follow it; choose engine='autograd'."
        )
    return [parameter for layer in layers for parameter in (layer.weight, layer.bias)]
