"""Layers of ICTP: products of irreducible Cartesian tensors from the coupling table, and linear maps over their paths.

An irreducible Cartesian tensor of rank l is a symmetric traceless tensor, here stored by 2l+1 components as everywhere
in this package. All tensors have the parity of tensors made of polar vectors, (-1)^l.

A path is one way to make a tensor of some rank out of others. Features are (atoms, components, channels): the ranks
follow each other, within a rank the paths, within a path the 2l+1 components.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cliffordstf.algebra.couplings import admissible_couplings, unit_scale
from cliffordstf.algebra.tracks import Layout, Track, natural_track
from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels import EdgePath, EdgePlan, NodePath, NodePlan, edge_convolution, node_bilinear
from cliffordstf.nn.linear import SILU_GAIN


def natural_layout(lmax: int) -> Layout:
    """Tensors of rank 0 … lmax, one of each."""
    return Layout(tuple(natural_track(degree) for degree in range(lmax + 1)))


class Paths:
    """How many paths lead to each rank, and where their components lie.

    Args:
        tracks: The rank of every path; `positions` follows this order.

    Attributes:
        counts: Number of paths to each track, in the order of ranks.
        dims: Components of all paths.
        positions: First component of every path.
    """

    def __init__(self, tracks: Sequence[Track]) -> None:
        self.counts = {track: tracks.count(track) for track in sorted(set(tracks), key=lambda track: track.degree)}
        self.dims = sum(track.dims for track in tracks)
        free: dict[Track, int] = {}
        start = 0
        for track, count in self.counts.items():
            free[track] = start
            start += count * track.dims
        self.positions: list[int] = []
        for track in tracks:
            self.positions.append(free[track])
            free[track] += track.dims

    def split(self, features: Tensor) -> dict[Track, Tensor]:
        """Parts (atoms, paths · (2l+1), channels) of features (atoms, components, channels)."""
        parts = features.split([count * track.dims for track, count in self.counts.items()], dim=1)
        return dict(zip(self.counts, parts, strict=True))


class ElementGroups(NamedTuple):
    """Atoms sorted by element.

    Attributes:
        order: Atoms in the order of their species, int64 (atoms,).
        back: Where each atom went, int64 (atoms,).
        present: Species that occur, int64 (groups,).
        sizes: Atoms of each of them.
    """

    order: Tensor
    back: Tensor
    present: Tensor
    sizes: list[int]

    @classmethod
    def of(cls, species: Tensor) -> "ElementGroups":
        """Sort species, (atoms,)."""
        order = species.argsort(stable=True)
        present, sizes = torch.unique_consecutive(species.index_select(0, order), return_counts=True)
        return cls(order, order.argsort(), present, sizes.tolist())


def mixed(features: Tensor, track: Track, weights: Tensor) -> Tensor:
    """Σ over paths and channels of a weight times the tensor of a path.

    Args:
        features: (atoms, paths · (2l+1), in channels).
        track: Rank of the tensors.
        weights: (paths, in channels, out channels).

    Returns:
        (atoms, 2l+1, out channels).
    """
    by_component = features.unflatten(1, (weights.shape[0], track.dims)).transpose(1, 2)
    return by_component.flatten(2) @ weights.flatten(0, 1)


class PathLinear(nn.Module):
    """Sum over the paths to each rank and over their channels, divided by the root of the number of terms.

    Args:
        paths: Of the features.
        in_channels, out_channels: Widths.
    """

    def __init__(self, paths: Paths, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.paths = paths
        self.weight = nn.Parameter(torch.randn(sum(paths.counts.values()), in_channels, out_channels))

    def forward(self, features: Tensor) -> Tensor:
        """(atoms, components of all paths, in channels) -> (atoms, Σ (2l+1), out channels)."""
        parts = self.paths.split(features)
        weights = self.weight.split(list(self.paths.counts.values()))
        return torch.cat(
            [
                mixed(part, track, weight * _root_of_terms(weight))
                for (track, part), weight in zip(parts.items(), weights, strict=True)
            ],
            dim=1,
        )


class ElementLinear(nn.Module):
    """`PathLinear` with weights of its own for every element.

    Args:
        paths: Of the features.
        elements: Number of elements.
        in_channels, out_channels: Widths.
    """

    def __init__(self, paths: Paths, elements: int, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.paths = paths
        self.weight = nn.Parameter(torch.randn(elements, sum(paths.counts.values()), in_channels, out_channels))

    def forward(self, parts: dict[Track, Tensor], groups: ElementGroups) -> Tensor:
        """Parts (atoms, paths · (2l+1), in channels) of atoms sorted by element -> (atoms, Σ (2l+1), out channels)."""
        weights = self.weight.index_select(0, groups.present).split(list(self.paths.counts.values()), dim=1)
        results = []
        for track, weight in zip(self.paths.counts, weights, strict=True):
            scaled = (weight * _root_of_terms(weight)).unbind(0)
            atoms = parts[track].split(groups.sizes)
            results.append(torch.cat([mixed(some, track, one) for some, one in zip(atoms, scaled, strict=True)]))
        return torch.cat(results, dim=1)


def _root_of_terms(weight: Tensor) -> float:
    """Factor that keeps the variance of a sum over paths and channels; weights (..., paths, in, out)."""
    return float(weight.shape[-3] * weight.shape[-2]) ** -0.5


class RadialNetwork(nn.Module):
    """Functions of the distance from a basis that vanishes at the cutoff; no biases, so that they vanish there too.

    Args:
        widths: Of the basis and of the hidden layers, all of which end in SiLU.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(inputs, outputs) for inputs, outputs in pairwise(widths))

    def forward(self, basis: Tensor) -> Tensor:
        """(pairs, basis) -> (pairs, width of the last layer)."""
        values = basis
        for weight in self.weights:
            values = nn.functional.silu(values @ (weight * weight.shape[0] ** -0.5)) * SILU_GAIN
        return values


class PathConvolution(nn.Module):
    """Σ_j R_path(r_ij) (T_l1(r̂_ij) ⊗ h_j,l2)_l3 / sqrt(average neighbours), every path (l1, l2, l3) by itself.

    Args:
        source: Ranks of the neighbours' features.
        edge_lmax: Highest rank of the tensors of directions.
        target: Ranks of the result.
        functions: Number of radial functions that the weights R_path are made of.
        channels: Width.
        average_neighbours: Divides the square of the sum.
    """

    def __init__(
        self, source: Layout, edge_lmax: int, target: Layout, functions: int, channels: int, average_neighbours: float
    ) -> None:
        super().__init__()
        edge = natural_layout(edge_lmax)
        couplings = admissible_couplings(source.tracks, edge.tracks, target.tracks)
        self.paths = Paths([c.c for c in couplings])
        factor = (functions * average_neighbours) ** -0.5
        edge_paths = tuple(
            EdgePath(
                coupling=c,
                source=source.slice(c.a).start,
                edge=edge.slice(c.b).start,
                target=position,
                weight=row,
                scale=factor * unit_scale(c.a.degree, c.b.degree, c.c.degree),
            )
            for row, (c, position) in enumerate(zip(couplings, self.paths.positions, strict=True))
        )
        self.plan = EdgePlan(edge_paths, source.dims, edge.dims, self.paths.dims, len(couplings))
        self.mixing = nn.Parameter(torch.randn(functions, len(couplings), channels))

    def forward(self, features: Tensor, radial: Tensor, directions: Tensor, edges: EdgeIndex) -> Tensor:
        """(atoms, source components, channels) -> (atoms, components of `self.paths`, channels).

        Radial functions (pairs, functions) and directions (pairs, 3) belong to the straight edges.
        """
        return edge_convolution(self.plan, features, radial, self.mixing, directions, edges)


class ProductBasis(nn.Module):
    """All products of 1 … `correlation` factors A, (…((A_l1 ⊗ A_l2) ⊗ A_l3)…)_L, channel by channel.

    Both orders of A_l1 ⊗ A_l2 count as paths, as in the full product of the ICTP paper. No rank on the way is higher
    than those of A.

    Args:
        source: Ranks of A.
        wanted: Ranks L of the results.
        correlation: Highest number of factors.
    """

    def __init__(self, source: Layout, wanted: Layout, correlation: int) -> None:
        super().__init__()
        self.source = source
        self.powers: list[Paths] = []
        self.plans: list[NodePlan] = []
        tracks, positions = list(source), [source.slice(track).start for track in source]
        every = [track for track in tracks if track in wanted]
        for order in range(2, correlation + 1):
            targets = wanted if order == correlation else source
            tracks, power, plan = _product(tracks, positions, source, targets)
            positions = power.positions
            self.powers.append(power)
            self.plans.append(plan)
            every += [track for track in tracks if track in wanted]
        self.paths = Paths(every)

    def forward(self, features: Tensor) -> dict[Track, Tensor]:
        """A (atoms, source components, channels) -> parts (atoms, paths · (2l+1), channels) of `self.paths`."""
        products = [self.source.split(features)]
        last = features
        for plan, power in zip(self.plans, self.powers, strict=True):
            last = node_bilinear(plan, last, features)
            products.append(power.split(last))
        return {
            track: torch.cat([parts[track] for parts in products if track in parts], dim=1)
            for track in self.paths.counts
        }


def _product(
    left: list[Track], positions: list[int], right: Layout, targets: Iterable[Track]
) -> tuple[list[Track], Paths, NodePlan]:
    """All products of paths with the tensors of a layout: their ranks, where they lie, and how they are made."""
    found = [
        (position, coupling)
        for track, position in zip(left, positions, strict=True)
        for coupling in admissible_couplings((track,), right.tracks, tuple(targets))
    ]
    tracks = [coupling.c for _, coupling in found]
    paths = Paths(tracks)
    node_paths = tuple(
        NodePath(c, position, right.slice(c.b).start, target, scale=unit_scale(c.a.degree, c.b.degree, c.c.degree))
        for (position, c), target in zip(found, paths.positions, strict=True)
    )
    left_dims = sum(track.dims for track in left)
    return tracks, paths, NodePlan(node_paths, left_dims, right.dims, paths.dims)


class IctpInteraction(nn.Module):
    """One layer: convolution, product basis, mixing of all products, self-connection.

    Args:
        source: Ranks of the features that come in.
        wanted: Ranks of those that go out.
        elements: Number of elements.
        channels: Width of the features.
        product_channels: Width of the product basis.
        edge_lmax: Highest rank of the tensors of directions and of the factors of the product basis.
        correlation: Highest number of factors of the product basis.
        radial_widths: Of the radial basis and of the hidden layers of the radial network.
        average_neighbours: Normalises sums over neighbours.
    """

    def __init__(
        self,
        source: Layout,
        wanted: Layout,
        *,
        elements: int,
        channels: int,
        product_channels: int,
        edge_lmax: int,
        correlation: int,
        radial_widths: Sequence[int],
        average_neighbours: float,
    ) -> None:
        super().__init__()
        self.source = source
        self.linear_up = PathLinear(Paths(source.tracks), channels, channels)
        self.radial = RadialNetwork(radial_widths)
        # With a single factor nothing but the wanted ranks themselves is read.
        factors = natural_layout(edge_lmax) if correlation > 1 else wanted
        self.convolution = PathConvolution(source, edge_lmax, factors, radial_widths[-1], channels, average_neighbours)
        self.linear_aggregate = PathLinear(self.convolution.paths, channels, product_channels)
        self.product = ProductBasis(factors, wanted, correlation)
        self.weights = ElementLinear(self.product.paths, elements, product_channels, product_channels)
        self.linear_out = PathLinear(Paths(wanted.tracks), product_channels, channels)
        self.kept = Paths([track for track in source if track in wanted])
        self.self_connection = ElementLinear(self.kept, elements, channels, channels)

    def forward(
        self, features: Tensor, groups: ElementGroups, basis: Tensor, directions: Tensor, edges: EdgeIndex
    ) -> Tensor:
        """(atoms, source components, channels) -> (atoms, wanted components, channels).

        The radial basis (pairs, functions) and directions (pairs, (edge_lmax+1)²) belong to the straight edges.
        """
        aggregate = self.convolution(self.linear_up(features), self.radial(basis), directions, edges)
        factors = self.linear_aggregate(aggregate).index_select(0, groups.order)
        message = self.linear_out(self.weights(self.product(factors), groups))
        kept = self.self_connection(self.source.split(features.index_select(0, groups.order)), groups)
        # Ranks that are new in this layer have nothing to be kept, and come last.
        new = message.shape[1] - kept.shape[1]
        return (message + nn.functional.pad(kept, (0, 0, 0, new))).index_select(0, groups.back)
