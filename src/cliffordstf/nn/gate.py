"""Non-linearities that respect rotations: functions of invariants that multiply tracks."""

from typing import cast

import torch
from torch import Tensor, nn

from cliffordstf.algebra.tracks import SCALAR, Layout
from cliffordstf.kernels import GatePlan, LinearPlan, LinearTerm, activation, scalar_gate, track_linear
from cliffordstf.nn.linear import SIGMOID_GAIN, SILU_GAIN, mlp, stacked
from cliffordstf.nn.norm import TrackNorms


class NormGate(nn.Module):
    """The paper's gate: SiLU on scalars, every other track times sigmoid(MLP(its channel norms))."""

    def __init__(self, layout: Layout, channels: int) -> None:
        super().__init__()
        self.norms = TrackNorms(layout)
        # Tracks are sorted: scalars, if there are any, come first.
        self.scalars = int(SCALAR in layout)
        self.gates = nn.ModuleDict({t.name: mlp(channels, channels, channels) for t in layout if t != SCALAR})
        own = tuple((i, i, 1, i) for i in range(len(self.gates)))
        bias = tuple((0, i, 1, i) for i in range(len(self.gates)))
        self.networks = LinearPlan((LinearTerm(len(own), own), LinearTerm(1, bias)), len(own))

    def forward(self, features: Tensor) -> Tensor:
        """(atoms, components, channels), same shape out; channels beyond those of the gate are zero and stay so."""
        scalars = features[:, : self.scalars]
        logits = self._logits(self.norms(features)[:, self.scalars :]) if self.gates else features[:, :0]
        return self.norms.multiply(features, torch.sigmoid(torch.cat([scalars, logits], dim=1)))

    def _logits(self, norms: Tensor) -> Tensor:
        """The networks of all gated tracks at once, (atoms, gated tracks, channels), same shape out."""
        values, ones = norms, norms.new_ones(norms.shape[0], 1, 1)
        for index in (0, 2):
            layers = [cast("nn.Linear", cast("nn.Sequential", gate)[index]) for gate in self.gates.values()]
            matrices, biases = stacked(layers, norms.shape[2], norms.shape[2])
            values = track_linear(self.networks, [(values, matrices), (ones, biases)])
            values = nn.functional.silu(values) if index == 0 else values
        return values


class ScalarGate(nn.Module):
    """SiLU on scalars, every other track times a sigmoid of a linear map of the scalars.

    Pseudoscalars are gated like vectors: an even or odd function of them alone would break parity.
    """

    def __init__(self, layout: Layout, channels: int) -> None:
        super().__init__()
        gated = tuple(track for track in layout if track != SCALAR)
        self.weight = nn.Parameter(torch.randn(len(gated), channels, channels) / channels**0.5) if gated else None
        self.bias = nn.Parameter(torch.zeros(len(gated), channels)) if gated else None
        tracks = tuple((layout.slice(track).start, track.dims) for track in gated)
        self.plan = GatePlan(tracks, SILU_GAIN, SIGMOID_GAIN)
        # One matrix for every gated track, all of them read the scalars.
        self.logits = LinearPlan((LinearTerm(layout.dims, tuple((0, i, 1, i) for i in range(len(gated)))),), len(gated))

    def forward(self, features: Tensor) -> Tensor:
        """(atoms, components, channels), same shape out; unit variance in gives about unit variance out."""
        if self.weight is None or self.bias is None:
            return activation(features, "silu", SILU_GAIN)
        return scalar_gate(self.plan, features, track_linear(self.logits, [(features, self.weight)]), self.bias)
