"""One layer of each profile: message, many-body product, update."""

from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from cliffordstf.algebra.tracks import Layout
from cliffordstf.graph import EdgeIndex
from cliffordstf.nn.convolution import Convolution
from cliffordstf.nn.gate import NormGate, ScalarGate
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.linear import TrackLinear, linear_sum, matrix_sum, sum_plan
from cliffordstf.nn.message import DualTrackMessage
from cliffordstf.nn.norm import TrackNorm
from cliffordstf.nn.product import AugmentedProduct, WeightedProduct


@dataclass(frozen=True)
class EdgeInputs:
    """Everything about the edges that the paper's layers share, computed once per forward.

    Attributes:
        geometry: The edges.
        directions: STF tensors of the directions, (edges, 9).
        basis: Radial basis, (pairs, basis).
        envelope: Cutoff envelope, (pairs,).
        hidden: Output of `EdgeEmbedding`, times the envelope, (pairs, features, channels).
    """

    geometry: Geometry
    directions: Tensor
    basis: Tensor
    envelope: Tensor
    hidden: Tensor


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
        kept = Layout(tuple(track for track in source if track in wanted))
        self.layout = Layout(tuple({*kept, *self.product.layout}))
        self.linear_self = TrackLinear(kept, channels, channels)
        self.linear_in = TrackLinear(self.product.layout, channels, channels, bias=True)
        maps = zip(self.product.powers, self.product.maps(), strict=True)
        self.sum = sum_plan(self.layout, [(source, self.linear_self), *maps])
        self.gate = NormGate(self.layout, channels)
        self.linear_out = TrackLinear(self.layout, channels, channels, bias=True)
        self.update = sum_plan(self.layout, [(self.layout, self.linear_out)], added=source)
        self.norm = TrackNorm(self.layout, channels)

    def forward(self, features: Tensor, edges: EdgeInputs) -> Tensor:
        """(atoms, source components, channels) -> (atoms, components of `self.layout`, channels).

        Features may be wider than the layer, by channels that are zero and stay so.
        """
        aggregate = self.message(features, edges.directions, edges.basis, edges.hidden, edges.envelope, edges.geometry)
        powers = zip(self.product(aggregate), self.product.matrices(self.linear_in), strict=True)
        mixed = matrix_sum(self.sum, [(features, self.linear_self.weight), *powers], self.linear_in.bias)
        updated = linear_sum(self.update, [(self.gate(mixed), self.linear_out)], added=features)
        normalised: Tensor = self.norm(updated)
        return normalised


class DefaultInteraction(nn.Module):
    """The default layer: linear, convolution, weighted product, self-connection, scalar gate, linear, residual.

    Args:
        source: Tracks of the incoming features.
        carried: Tracks that the model carries anywhere.
        wanted: Tracks that anything downstream reads; `self.layout` says which of them come out.
        elements: Number of elements.
        lmax, channels, radial_functions, average_neighbours, body_order: As in the config.
    """

    def __init__(
        self,
        source: Layout,
        carried: Layout,
        wanted: Layout,
        *,
        elements: int,
        lmax: int,
        channels: int,
        radial_functions: int,
        average_neighbours: float,
        body_order: int,
    ) -> None:
        super().__init__()
        self.linear_up = TrackLinear(source, channels, channels)
        target = carried if body_order > 2 else wanted
        self.convolution = Convolution(source, target, lmax, channels, radial_functions, average_neighbours)
        aggregated = self.convolution.layout
        self.linear_aggregate = TrackLinear(aggregated, channels, channels)
        self.product = WeightedProduct(aggregated, carried, wanted, elements, channels, body_order)
        # Every power of the aggregate, and the features themselves, through a matrix of their own.
        terms = [*self.product.powers, source]
        kept = [Layout(tuple(track for track in layout if track in wanted)) for layout in terms]
        self.layout = Layout(tuple({track for layout in kept for track in layout}))
        self.linears = nn.ModuleList(TrackLinear(layout, channels, channels) for layout in kept)
        # Each term has about unit variance; the root of their number keeps the sum there.
        pairs = list(zip(terms, self._linears(), strict=True))
        self.mix = sum_plan(self.layout, pairs, scale=len(terms) ** -0.5)
        self.gate = ScalarGate(self.layout, channels)
        self.linear_out = TrackLinear(self.layout, channels, channels)
        self.skip = TrackLinear(kept[-1], channels, channels)
        self.update = sum_plan(self.layout, [(self.layout, self.linear_out), (source, self.skip)], scale=2**-0.5)

    def _linears(self) -> list[TrackLinear]:
        return cast("list[TrackLinear]", list(self.linears))

    def forward(
        self, features: Tensor, species: Tensor, radial: Tensor, directions: Tensor, edges: EdgeIndex
    ) -> Tensor:
        """(atoms, source components, channels) -> (atoms, components of `self.layout`, channels).

        Species are (atoms,). Radial functions (pairs, functions) and directions (pairs, 3) belong to the straight
        edges.
        """
        aggregate = self.convolution(self.linear_up(features), radial, directions, edges)
        powers = self.product(self.linear_aggregate(aggregate), species)
        mixed = linear_sum(self.mix, list(zip([*powers, features], self._linears(), strict=True)))
        return linear_sum(self.update, [(self.gate(mixed), self.linear_out), (features, self.skip)])
