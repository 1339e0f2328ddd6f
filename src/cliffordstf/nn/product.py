"""Many-body products: the coupling table applied to two node features."""

from functools import cache
from typing import cast

import torch
from torch import Tensor, nn

from cliffordstf.algebra.couplings import (
    TrackCoupling,
    admissible_couplings,
    geometric_product_couplings,
    track_coupling,
)
from cliffordstf.algebra.tracks import SCALAR, STF2, TRACKS, VECTOR, Layout, natural_track
from cliffordstf.kernels import NodePath, NodePlan, node_bilinear
from cliffordstf.nn.convolution import variance_scales
from cliffordstf.nn.linear import TrackLinear


def augmented_couplings(carried: Layout) -> list[tuple[TrackCoupling, float]]:
    """The paper's augmented product, between the tracks that a model carries, as couplings with their factors.

    Its six bilinear terms: the geometric product; STF2(v, v'); S×v' and v×S', which break parity because v is polar;
    <S, S'>; STF3(S, v'); T·v'. Degrees above 3 continue the last two.
    """
    terms = [(coupling, float(sign)) for coupling, sign in geometric_product_couplings()]
    if STF2 in carried:
        terms += [
            (track_coupling(VECTOR, VECTOR, STF2), 1.0),
            # The paper writes ε_ikl v_k S_lj, that is v×S, for either operand.
            (track_coupling(STF2, VECTOR, STF2), -1.0),
            (track_coupling(VECTOR, STF2, STF2), 1.0),
            (track_coupling(STF2, STF2, SCALAR), 1.0),
        ]
    for track in (track for track in carried if track.degree >= 3):
        lower = natural_track(track.degree - 1)
        terms.append((track_coupling(lower, VECTOR, track), 1.0))
        terms.append((track_coupling(track, VECTOR, lower), 1.0))
    return [(c, factor) for c, factor in terms if {c.a, c.b, c.c} <= set(carried)]


class AugmentedProduct(nn.Module):
    """The paper's many-body stage: W2 A + W3 (A ⊛ A) + W4 ((A ⊛ A) ⊛ A), with ⊛ the augmented product.

    It makes the powers and holds the maps; their sum is left to the layer, which multiplies it by another matrix.

    Args:
        source: Tracks of A.
        carried: Tracks that the model carries anywhere.
        wanted: Tracks that this layer may put out; `self.layout` says which of them come out.
        channels: Width.
        body_order: 2 (no product), 3 or 4.
    """

    def __init__(self, source: Layout, carried: Layout, wanted: Layout, channels: int, body_order: int) -> None:
        super().__init__()
        self.powers = [source]
        self.plans: list[NodePlan] = []
        for order in range(3, body_order + 1):
            # The last power is only read through its linear map: tracks that are not wanted are not computed.
            targets = wanted if order == body_order else carried
            self._add_power(source, carried, targets)
        kept = [Layout(tuple(track for track in power if track in wanted)) for power in self.powers]
        self.linears = nn.ModuleList(TrackLinear(layout, channels, channels) for layout in kept)
        self.layout = Layout(tuple({track for layout in kept for track in layout}))

    def maps(self) -> list[TrackLinear]:
        """The maps W2, W3 and so on, of A and its powers."""
        return cast("list[TrackLinear]", list(self.linears))

    def _add_power(self, source: Layout, carried: Layout, targets: Layout) -> None:
        left = self.powers[-1]
        couplings = [
            (c, factor)
            for c, factor in augmented_couplings(carried)
            if c.a in left and c.b in source and c.c in targets
        ]
        layout = Layout(tuple({c.c for c, _ in couplings}))
        paths = tuple(
            NodePath(c, left.slice(c.a).start, source.slice(c.b).start, layout.slice(c.c).start, scale=factor)
            for c, factor in couplings
        )
        self.plans.append(NodePlan(paths, left.dims, source.dims, layout.dims))
        self.powers.append(layout)

    def forward(self, features: Tensor) -> list[Tensor]:
        """(atoms, source components, channels) -> A, A ⊛ A, …, (atoms, components of `self.powers[n]`, channels)."""
        powers = [features]
        for plan in self.plans:
            powers.append(node_bilinear(plan, powers[-1], features))
        return powers

    def matrices(self, following: TrackLinear) -> list[Tensor]:
        """W2, W3, … times the matrices of the map that reads their sum: one product over atoms instead of two.

        Of every power (tracks, channels, channels).
        """
        return [linear.weight @ _of_tracks(following, linear.layout) for linear in self.maps()]


def _of_tracks(linear: TrackLinear, layout: Layout) -> Tensor:
    if layout == linear.layout:
        return linear.weight
    return torch.stack([linear.weight[linear.layout.tracks.index(track)] for track in layout])


class WeightedProduct(nn.Module):
    """The default profile's many-body stage: iterated products, a learned weight per element, coupling and channel.

    P_2 = A, P_(n+1) = Σ_paths w_path · coupling(A, P_n) up to the body order; the layer sums linear maps of all powers.
    All couplings conserve parity; those that cannot have an effect on a wanted track are left out.

    Args:
        source: Tracks of A.
        carried: Tracks that intermediate powers may hold.
        wanted: Tracks that the layer reads; `self.powers` says which tracks each power holds.
        elements: Number of elements that have weights of their own.
        channels: Width.
        body_order: 2 (no product) or more.
    """

    def __init__(
        self, source: Layout, carried: Layout, wanted: Layout, elements: int, channels: int, body_order: int
    ) -> None:
        super().__init__()
        powers, couplings = _live_powers(source, carried, wanted, body_order)
        self.powers = powers
        self.plans = [
            _weighted_plan(terms, source, right, target)
            for terms, right, target in zip(couplings, powers[:-1], powers[1:], strict=True)
        ]
        # A half: operands that share their source are correlated, and their products larger than `unit_scale` assumes.
        # All elements start alike.
        self.weights = nn.ParameterList(
            0.5 * torch.randn(plan.weight_rows, channels).repeat(elements, 1, 1) for plan in self.plans
        )

    def forward(self, features: Tensor, species: Tensor) -> list[Tensor]:
        """(atoms, source components, channels) -> the powers P_n, (atoms, components of `powers[n]`, channels)."""
        powers = [features]
        for plan, weights in zip(self.plans, self.weights, strict=True):
            powers.append(node_bilinear(plan, features, powers[-1], weights, species))
        return powers


@cache
def _live_powers(
    source: Layout, carried: Layout, wanted: Layout, body_order: int
) -> tuple[list[Layout], list[list[TrackCoupling]]]:
    """Tracks of each power and the couplings between them, without those that have no effect on a wanted track.

    Some are out of reach, others vanish identically because an operand occurs twice, like v·(v×b). Both show as a zero
    derivative at random features.
    """
    couplings: list[list[TrackCoupling]] = []
    right = source
    for order in range(3, body_order + 1):
        terms = admissible_couplings(source.tracks, right.tracks, carried.tracks)
        # A with itself: (a, b) and (b, a) are the same up to a sign.
        couplings.append([c for c in terms if order > 3 or TRACKS.index(c.a) <= TRACKS.index(c.b)])
        right = Layout(tuple({c.c for c in couplings[-1]}))
    while True:
        powers = [source, *(Layout(tuple({c.c for c in terms})) for terms in couplings)]
        alive = _have_effect(powers, couplings, wanted)
        if all(all(flags) for flags in alive):  # also when there are no couplings at all, at body order 2
            return powers, couplings
        couplings = [
            [c for c, flag in zip(terms, flags, strict=True) if flag]
            for terms, flags in zip(couplings, alive, strict=True)
        ]


@torch.inference_mode(False)
@torch.enable_grad()
def _have_effect(powers: list[Layout], couplings: list[list[TrackCoupling]], wanted: Layout) -> list[list[bool]]:
    """Which couplings change the wanted tracks of any power, judged at eight random features in float64."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    features = draw(8, powers[0].dims, 1)
    weights = [draw(len(terms), 1).requires_grad_() for terms in couplings]
    power, total = features, features.new_zeros(())
    for terms, weight, right, target in zip(couplings, weights, powers[:-1], powers[1:], strict=True):
        power = node_bilinear(_weighted_plan(terms, powers[0], right, target), features, power, weight)
        for track in (track for track in target if track in wanted):
            part = target.take(power, track)
            total = total + (part * draw(*part.shape)).sum()
    if not couplings:
        return []
    gradients = torch.autograd.grad(total, weights, allow_unused=True, materialize_grads=True)
    return [(gradient.abs() > 1e-9).flatten().tolist() for gradient in gradients]


def _weighted_plan(couplings: list[TrackCoupling], left: Layout, right: Layout, target: Layout) -> NodePlan:
    paths = tuple(
        NodePath(c, left.slice(c.a).start, right.slice(c.b).start, target.slice(c.c).start, row, scale)
        for row, (c, scale) in enumerate(zip(couplings, variance_scales(couplings), strict=True))
    )
    return NodePlan(paths, left.dims, right.dims, target.dims, len(paths))
