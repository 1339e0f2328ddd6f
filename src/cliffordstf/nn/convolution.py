"""The default profile's message: every parity-conserving coupling of sender and direction, with radial weights."""

import torch
from torch import Tensor, nn

from cliffordstf.algebra.couplings import TrackCoupling, admissible_couplings, unit_scale
from cliffordstf.algebra.tracks import Layout, natural_track
from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels import EdgePath, EdgePlan, edge_convolution


def variance_scales(couplings: list[TrackCoupling]) -> list[float]:
    """Constant factor of each path: unit-variance operands give unit variance in every target track."""
    fan_in = {c.c: sum(other.c == c.c for other in couplings) for c in couplings}
    return [unit_scale(c.a.degree, c.b.degree, c.c.degree) / fan_in[c.c] ** 0.5 for c in couplings]


class Convolution(nn.Module):
    """Σ_j Σ_paths R_path(r_ij) · coupling(h_j, Y(r̂_ij)) / sqrt(average neighbours).

    The weights R_path are learned combinations, for every path and channel, of a few learned radial functions. Every
    radial function carries the envelope, so a neighbour that leaves the cutoff leaves with value, slope and
    curvature zero.

    Args:
        source: Tracks of the sender.
        target: Tracks wanted; `self.layout` says which of them can be reached.
        lmax: Highest degree of the direction tensors.
        channels: Width.
        radial_functions: Number of radial functions that the weights are made of.
        average_neighbours: Divides the sum.
    """

    def __init__(
        self,
        source: Layout,
        target: Layout,
        lmax: int,
        channels: int,
        radial_functions: int,
        average_neighbours: float,
    ) -> None:
        super().__init__()
        edge = Layout(tuple(natural_track(degree) for degree in range(lmax + 1)))
        couplings = admissible_couplings(source.tracks, edge.tracks, target.tracks)
        self.layout = Layout(tuple({c.c for c in couplings}))
        paths = tuple(
            EdgePath(
                coupling=c,
                source=source.slice(c.a).start,
                edge=edge.slice(c.b).start,
                target=self.layout.slice(c.c).start,
                weight=row,
                scale=scale / average_neighbours**0.5,
            )
            for row, (c, scale) in enumerate(zip(couplings, variance_scales(couplings), strict=True))
        )
        self.plan = EdgePlan(paths, source.dims, edge.dims, self.layout.dims, len(paths))
        self.mixing = nn.Parameter(torch.randn(radial_functions, len(paths), channels) / radial_functions**0.5)

    def forward(self, features: Tensor, radial: Tensor, directions: Tensor, edges: EdgeIndex) -> Tensor:
        """(atoms, source components, channels) -> (atoms, components of `self.layout`, channels).

        Radial functions (pairs, functions) and directions (pairs, 3) belong to the straight edges.
        """
        return edge_convolution(self.plan, features, radial, self.mixing, directions, edges)
