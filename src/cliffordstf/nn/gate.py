"""Non-linearities that respect rotations: functions of invariants that multiply tracks."""

import torch
from torch import Tensor, nn

from cliffordstf.algebra.tracks import SCALAR, Layout
from cliffordstf.kernels import GatePlan, LinearPlan, LinearTerm, scalar_gate, track_linear
from cliffordstf.nn.linear import SIGMOID_GAIN, SILU_GAIN, mlp
from cliffordstf.nn.norm import TrackNorms


class NormGate(nn.Module):
    """The paper's gate: SiLU on scalars, every other track times sigmoid(MLP(its channel norms))."""

    def __init__(self, layout: Layout, channels: int) -> None:
        super().__init__()
        self.layout, self.norms = layout, TrackNorms(layout)
        self.gates = nn.ModuleDict({t.name: mlp(channels, channels, channels) for t in layout if t != SCALAR})

    def forward(self, features: Tensor) -> Tensor:
        """(atoms, components, channels), same shape out."""
        norms = self.norms(features).unbind(1)
        logits = [
            self.layout.take(features, track)[:, 0] if track == SCALAR else self.gates[track.name](size)
            for track, size in zip(self.layout, norms, strict=True)
        ]
        return self.norms.multiply(features, torch.sigmoid(torch.stack(logits, dim=1)))


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
            return nn.functional.silu(features) * SILU_GAIN
        return scalar_gate(self.plan, features, track_linear(self.logits, [(features, self.weight)]), self.bias)
