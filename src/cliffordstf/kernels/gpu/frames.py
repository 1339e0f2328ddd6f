"""A plan in the frames of the edges, for kernels that are generated from it.

The frame of a pair comes from a mirror H, which takes its direction to +z or -z (`way` is -1 where H n = -z). A mirror
is symmetric and its own inverse, and so are the matrices by which it acts on tensors of every degree: one triangle of
each is kept, and features enter and leave a frame by the same matrix. What is missing to the isometry that takes the
direction to +z are signs of tracks. They cancel, or leave one sign for all numbers that connect tracks of opposite
parity: `way` for the forward edge of a pair, and its opposite for the reverse edge.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cliffordstf.algebra.frames import Matrix, aligned_numbers, generators, track_basis
from cliffordstf.algebra.tracks import BIVECTOR, PSEUDOSCALAR, Track
from cliffordstf.kernels.plan import EdgePath, EdgePlan

TINY = 1e-14

_DUAL_AXES, _DUAL_SIGNS = (0, 2, 1), (1, -1, 1)
"""Where the frame components of a bivector, z, -y and x of its dual, stand among those of a vector: z, x and y."""


def triangle_start(degree: int) -> int:
    """Where the matrix of a degree begins in the row of a pair, behind `way`."""
    return 1 + sum((2 * l + 1) * (l + 1) for l in range(1, degree))


def frame_size(lmax: int) -> int:
    """Values that a pair's frame takes."""
    return triangle_start(lmax + 1)


def element_name(degree: int, row: int, column: int) -> tuple[str, int]:
    """Variable of an element of a frame matrix, and its place in the row of a pair."""
    low, high = sorted((row, column))
    place = low * (2 * degree + 1) - low * (low - 1) // 2 + high - low
    return f"f{degree}_{low}_{high}", triangle_start(degree) + place


def track_element(track: Track, row: int, column: int) -> tuple[int, int, int]:
    """Sign, row and column in the matrix of a vector, or of the track's degree, of an element of a track's matrix."""
    if track != BIVECTOR:
        return 1, row, column
    return _DUAL_SIGNS[row] * _DUAL_SIGNS[column], _DUAL_AXES[row], _DUAL_AXES[column]


@dataclass(frozen=True)
class Number:
    """A number by which frame components of an order are multiplied.

    Attributes:
        index: Its place among all numbers.
        source, target: First components of the order on both sides; components of two tracks of features.
        both: Whether there is a second component.
        flips: Whether the edge's sign multiplies it.
    """

    index: int
    source: int
    target: int
    both: bool
    flips: bool

    @property
    def links(self) -> list[tuple[int, int]]:
        """Components (source, target) that it connects."""
        return [(self.source + part, self.target + part) for part in range(1 + self.both)]


@dataclass(frozen=True, eq=False)
class FrameSide:
    """Tracks of what atoms send, or of what they receive.

    Attributes:
        components: Components of the feature.
        tracks: Tracks that a path reads or writes, with their first components.
        is_target: Whether results are on this side; what is read there are their gradients.
    """

    components: int
    tracks: tuple[tuple[int, Track], ...]
    is_target: bool

    @cached_property
    def located(self) -> dict[int, tuple[int, Track]]:
        """First component and track of every component of a track."""
        return {start + k: (start, track) for start, track in self.tracks for k in range(track.dims)}

    def entry(self, track: Track) -> Matrix:
        """Frame components of z from stored ones; the transpose leads back from sums to stored ones."""
        basis = track_basis(track)
        # Gradients of results change in the opposite way to results.
        return np.asarray(np.linalg.inv(basis).T, dtype=np.float64) if self.is_target else basis

    def generator(self, component: int, axis: int) -> list[tuple[float, int]]:
        """The row of a component in the generator of turns about x (0) or y (1): values and components."""
        start, track = self.located[component]
        return [(value, start + k) for k, value in _nonzero(generators(track)[axis, component - start])]


@dataclass(frozen=True, eq=False)
class FramePlan:
    """An edge plan as numbers in frames.

    Attributes:
        source, target: Tracks on both sides.
        numbers: What paths add up to, in the order of |m|.
        fold: Numbers from rows of the weights, (numbers, rows).
        lmax: Highest degree of a track on either side, at least 1: frames of pairs always have vectors.
    """

    source: FrameSide
    target: FrameSide
    numbers: tuple[Number, ...]
    fold: Matrix
    lmax: int

    @classmethod
    def of(cls, plan: EdgePlan) -> "FramePlan":
        """The numbers of a plan whose couplings conserve parity."""
        found: dict[tuple[int, int, int], tuple[bool, Matrix]] = {}
        for path in plan.paths:
            for order, factor in enumerate(_factors(path)):
                if abs(factor) > TINY:
                    component = max(0, 2 * order - 1)
                    key = (order, path.source + component, path.target + component)
                    flips = path.coupling.a.parity != path.coupling.c.parity
                    found.setdefault(key, (flips, np.zeros(plan.weight_rows)))[1][path.weight] += factor
        numbers = tuple(
            Number(index, source, target, order > 0, found[order, source, target][0])
            for index, (order, source, target) in enumerate(sorted(found))
        )
        fold = np.array([found[key][1] for key in sorted(found)]).reshape(len(numbers), plan.weight_rows)
        source = _side(plan.source_dims, ((p.source, p.coupling.a) for p in plan.paths), False)
        target = _side(plan.target_dims, ((p.target, p.coupling.c) for p in plan.paths), True)
        lmax = max([1, *(track.degree for _, track in (*source.tracks, *target.tracks))])
        return cls(source, target, numbers, fold, lmax)

    @cached_property
    def by_order(self) -> list[tuple[Number, ...]]:
        """The numbers of each order that has any."""
        orders = {number.index: (number.source - self.source.located[number.source][0]) for number in self.numbers}
        return [tuple(n for n in self.numbers if orders[n.index] == m) for m in sorted(set(orders.values()))]

    @property
    def transposed(self) -> "FramePlan":
        """From what receivers get to what senders sent."""
        numbers = tuple(replace(n, source=n.target, target=n.source) for n in self.numbers)
        return FramePlan(self.target, self.source, numbers, self.fold, self.lmax)


def _side(components: int, placed: Iterable[tuple[int, Track]], is_target: bool) -> FrameSide:
    return FrameSide(components, tuple(sorted(set(placed), key=lambda place: place[0])), is_target)


def _factors(path: EdgePath) -> Matrix:
    """What a path does to each order, with the constant signs that frames leave out."""
    signs = [-1 if track in (BIVECTOR, PSEUDOSCALAR) else 1 for track in (path.coupling.a, path.coupling.c)]
    return np.multiply(aligned_numbers(path.coupling), path.scale * signs[0] * signs[1])


def _nonzero(row: Matrix) -> list[tuple[int, float]]:
    return [(int(k), float(row[k])) for k in np.flatnonzero(np.abs(row) > TINY)]


def combination(row: Matrix, names: Iterable[str]) -> list[tuple[float, str]]:
    """A row of a matrix as factors of variables, without those that vanish."""
    known = list(names)
    return [(value, known[k]) for k, value in _nonzero(row)]
