"""The paper's adaptive routing: one gate in (0, 1) per atom and symmetric-traceless track."""

import torch
from torch import Tensor, nn

from cliffordstf.algebra.tracks import SCALAR, Layout
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.linear import mlp
from cliffordstf.nn.norm import EPSILON


def environment_invariants(geometry: Geometry) -> Tensor:
    """Coordination number, angular variance 1 - |mean direction| and mean distance (Å), (atoms, 3).

    The same for every layer, so computed once per forward. An atom without neighbours gets (0, 1, 0).
    """
    ones = torch.ones_like(geometry.distances)
    count = geometry.sum_over_edges(ones)
    safe = count.clamp(min=1)
    mean_direction = geometry.sum_over_edges(geometry.directions) / safe[:, None]
    variance = 1 - (mean_direction.square().sum(dim=1) + EPSILON).sqrt()
    mean_distance = geometry.sum_over_edges(geometry.distances) / safe
    return torch.stack([count, variance, mean_distance], dim=1)


class TrackRouter(nn.Module):
    """Multiplies the symmetric-traceless tracks by gates, one module for all layers.

    Args:
        layout: Tracks of the features between layers.
        channels: Width of the features.
        elements: Number of element slots, for the static mode.
        mode: `static` learns a gate per element, `learned` computes it from four invariants by a small network.
    """

    def __init__(self, gated: Layout, channels: int, elements: int, mode: str) -> None:
        super().__init__()
        self.gated, self.channels = gated, channels
        count = len(gated)
        if mode == "static":
            self.table: nn.Parameter | None = nn.Parameter(torch.ones(elements, count))
            self.network = None
        else:
            self.table = None
            self.network = mlp(4, channels // 4, count)

    def forward(self, features: Tensor, layout: Layout, species: Tensor, invariants: Tensor) -> Tensor:
        """Features (atoms, components, channels) with their gated tracks rescaled."""
        if self.table is not None:
            gates = torch.sigmoid(self.table.index_select(0, species))
        else:
            scalars = layout.take(features, SCALAR)[:, 0]
            size = (scalars.square().sum(dim=1, keepdim=True) / self.channels + EPSILON).sqrt()
            assert self.network is not None
            gates = torch.sigmoid(self.network(torch.cat([invariants, size], dim=1)))
        factors = features.new_ones(features.shape[0], 1)
        columns = []
        for track in layout:
            factor = gates[:, self.gated.tracks.index(track), None] if track in self.gated else factors
            columns.append(factor.expand(-1, track.dims))
        return features * torch.cat(columns, dim=1)[:, :, None]
