"""One layer of each profile: message, many-body product, update."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cliffordstf.algebra.tracks import Layout
from cliffordstf.nn.convolution import Convolution
from cliffordstf.nn.gate import NormGate, ScalarGate
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.linear import TrackLinear, merge, restrict
from cliffordstf.nn.message import DualTrackMessage
from cliffordstf.nn.norm import TrackNorm
from cliffordstf.nn.product import AugmentedProduct, WeightedProduct


@dataclass(frozen=True)
class EdgeInputs:
    """Everything about the edges that the layers share, computed once per forward.

    Attributes:
        geometry: The edges.
        directions: STF tensors of the directions, (edges, (lmax+1)²).
        basis: Radial basis, (edges, basis).
        envelope: Cutoff envelope, (edges,).
        hidden: The paper's edge embedding, (edges, features, channels); None in the default profile.
    """

    geometry: Geometry
    directions: Tensor
    basis: Tensor
    envelope: Tensor
    hidden: Tensor | None = None


class PaperInteraction(nn.Module):
    """The paper's layer: dual-track message, augmented product, linear, norm gate, linear, residual, norm.

    Args:
        source: Tracks of the incoming features.
        carried: Tracks that the model carries anywhere.
        allowed: Tracks that the message may carry at this layer.
        wanted: Tracks that anything downstream reads; `self.layout` says which of them come out.
        channels, basis, heads, body_order, edge_stf2, cross: As in the config.
    """

    def __init__(
        self,
        source: Layout,
        carried: Layout,
        allowed: Layout,
        wanted: Layout,
        *,
        channels: int,
        basis: int,
        heads: int,
        body_order: int,
        edge_stf2: bool,
        cross: bool,
    ) -> None:
        super().__init__()
        target = allowed if body_order > 2 else wanted
        self.message = DualTrackMessage(source, target, channels, basis, heads, edge_stf2, cross)
        self.product = AugmentedProduct(self.message.layout, carried, wanted, channels, body_order)
        self.source = source
        kept = Layout(tuple(track for track in source if track in wanted))
        self.layout = Layout(tuple({*kept, *self.product.layout}))
        self.linear_self = TrackLinear(kept, channels, channels)
        self.linear_in = TrackLinear(self.product.layout, channels, channels, bias=True)
        self.gate = NormGate(self.layout, channels)
        self.linear_out = TrackLinear(self.layout, channels, channels, bias=True)
        self.norm = TrackNorm(self.layout, channels)

    def forward(self, features: Tensor, edges: EdgeInputs) -> Tensor:
        """(atoms, source components, channels) -> (atoms, components of `self.layout`, channels)."""
        assert edges.hidden is not None
        aggregate = self.message(features, edges.directions, edges.basis, edges.hidden, edges.envelope, edges.geometry)
        many_body = self.product(aggregate)
        update = merge(
            self.layout,
            self.linear_self.tracks(features, self.source),
            self.linear_in.tracks(many_body, self.product.layout),
        )
        update = self.linear_out(self.gate(update))
        normalised: Tensor = self.norm(update + restrict(features, self.source, self.layout))
        return normalised


class DefaultInteraction(nn.Module):
    """The default layer: linear, convolution, weighted product, self-connection, scalar gate, linear, residual.

    Args:
        source: Tracks of the incoming features.
        carried: Tracks that the model carries anywhere.
        wanted: Tracks that anything downstream reads; `self.layout` says which of them come out.
        lmax, channels, basis, radial_width, radial_depth, average_neighbours, body_order: As in the config.
    """

    def __init__(
        self,
        source: Layout,
        carried: Layout,
        wanted: Layout,
        *,
        lmax: int,
        channels: int,
        basis: int,
        radial_width: int,
        radial_depth: int,
        average_neighbours: float,
        body_order: int,
    ) -> None:
        super().__init__()
        self.source = source
        self.linear_up = TrackLinear(source, channels, channels)
        target = carried if body_order > 2 else wanted
        self.convolution = Convolution(
            source, target, lmax, channels, basis, radial_width, radial_depth, average_neighbours
        )
        aggregated = self.convolution.layout
        self.linear_aggregate = TrackLinear(aggregated, channels, channels)
        self.product = WeightedProduct(aggregated, carried, wanted, channels, body_order)
        kept = Layout(tuple(track for track in source if track in wanted))
        self.layout = Layout(tuple({*kept, *self.product.layout}))
        self.linear_self = TrackLinear(kept, channels, channels, bias=True)
        self.gate = ScalarGate(self.layout, channels)
        self.linear_out = TrackLinear(self.layout, channels, channels)
        self.skip = TrackLinear(kept, channels, channels)

    def forward(self, features: Tensor, edges: EdgeInputs) -> Tensor:
        """(atoms, source components, channels) -> (atoms, components of `self.layout`, channels)."""
        sent = self.linear_up(features)
        aggregate = self.convolution(sent, edges.directions, edges.basis, edges.envelope, edges.geometry)
        terms = self.product(self.linear_aggregate(aggregate))
        mixed = merge(self.layout, *terms, self.linear_self.tracks(features, self.source))
        # Each term has about unit variance; the root of their number keeps the sum there.
        update = self.linear_out(self.gate(mixed / (len(terms) + 1) ** 0.5))
        skipped = torch.cat(list(self.skip.tracks(features, self.source).values()), dim=1)
        return (update + restrict(skipped, self.skip.layout, self.layout)) / 2**0.5
