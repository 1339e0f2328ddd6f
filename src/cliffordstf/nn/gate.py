"""Non-linearities that respect rotations: functions of invariants that multiply tracks."""

import torch
from torch import Tensor, nn

from cliffordstf.algebra.tracks import SCALAR, Layout
from cliffordstf.nn.linear import SIGMOID_GAIN, SILU_GAIN, dense, mlp
from cliffordstf.nn.norm import norm


class NormGate(nn.Module):
    """The paper's gate: SiLU on scalars, every other track times sigmoid(MLP(its channel norms))."""

    def __init__(self, layout: Layout, channels: int) -> None:
        super().__init__()
        self.layout = layout
        self.gates = nn.ModuleDict({t.name: mlp(channels, channels, channels) for t in layout if t != SCALAR})

    def forward(self, features: Tensor) -> Tensor:
        """(atoms, components, channels), same shape out."""
        parts = []
        for track, part in self.layout.split(features).items():
            if track == SCALAR:
                parts.append(nn.functional.silu(part))
            else:
                gate = torch.sigmoid(self.gates[track.name](norm(part, track)))
                parts.append(part * gate[:, None])
        return torch.cat(parts, dim=1)


class ScalarGate(nn.Module):
    """SiLU on scalars, every other track times a sigmoid of a linear map of the scalars.

    Pseudoscalars are gated like vectors: an even or odd function of them alone would break parity.
    """

    def __init__(self, layout: Layout, channels: int) -> None:
        super().__init__()
        self.layout = layout
        self.gated = tuple(track for track in layout if track != SCALAR)
        self.gate = dense(channels, channels * len(self.gated)) if self.gated else None

    def forward(self, features: Tensor) -> Tensor:
        """(atoms, components, channels), same shape out; unit variance in gives about unit variance out."""
        tracks = self.layout.split(features)
        scalars = tracks[SCALAR]
        parts = [nn.functional.silu(scalars) * SILU_GAIN]
        if self.gate is not None:
            gates = torch.sigmoid(self.gate(scalars[:, 0])).unflatten(1, (len(self.gated), 1, -1)) * SIGMOID_GAIN
            for gate, track in zip(gates.unbind(1), self.gated, strict=True):
                parts.append(tracks[track] * gate)
        return torch.cat(parts, dim=1)
