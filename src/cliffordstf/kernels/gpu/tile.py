"""Triton code for an edge and a block of channels, in the frame of the edge.

A variable is defined where it is needed first, so only what leads to a result is ever read or computed. Components of
features are vectors over channels; elements of frames, angles and signs are scalars.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cliffordstf.kernels.gpu.code import Channels, linear
from cliffordstf.kernels.gpu.frames import FrameSide, Number, combination, element_name, frame_size, track_element


@dataclass(frozen=True)
class Sizes:
    """What a kernel is specialised to, beside its plan.

    Attributes:
        channels: Channels of the features.
        radial: Radial functions of a pair.
        lmax: Highest degree in the frames.
        dtype: Type of all numbers, `float32` or `float64`.
    """

    channels: int
    radial: int
    lmax: int
    dtype: str

    @property
    def cut(self) -> Channels:
        """How channels are cut into blocks."""
        return Channels(self.channels)

    @property
    def frame(self) -> int:
        """Values of a pair's frame."""
        return frame_size(self.lmax)


class Code:
    """Statements, and the variables that they define.

    Attributes:
        lines: The statements.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: set[str] = set()

    def let(self, name: str, value: Callable[[], str]) -> str:
        """A variable; if it is new, its value is computed now."""
        if name not in self._known:
            text = value()
            self.lines.append(f"{name} = {text}")
            self._known.add(name)
        return name


class Tile:
    """One edge in the code of a kernel.

    The statements before its own define, with `pair` behind their names, `frame`, a pointer to the frame of the pair,
    and `turn_x`, `turn_y` and `tilt` where directions have cotangents; with `edge` behind it, for each feature NAME the
    pointer `NAME_row`; and the numbers of the pair, see `number_lines`.

    Args:
        sizes: What the kernel is specialised to.
        given: Inputs with cotangents.
        code: Where the code goes; other edges may go there, too.
        pair, edge: What is put behind names of variables that belong to the pair, or to the edge.
        is_reverse: Whether numbers that flip change sign.
    """

    def __init__(
        self, sizes: Sizes, given: frozenset[str], code: Code, pair: str, edge: str, is_reverse: bool = False
    ) -> None:
        self.sizes, self.given, self.code = sizes, given, code
        self.pair, self.edge, self.is_reverse = pair, edge, is_reverse

    def let(self, name: str, value: Callable[[], str]) -> str:
        """A variable of the edge; if it is new, its value is computed now."""
        return self.code.let(name + self.edge, value)

    def add(self, name: str, terms: Iterable[str]) -> None:
        """Add terms to a variable that all edges share."""
        text = " + ".join(terms)
        if text:
            self.code.lines.append(f"{name} += {text}")

    def element(self, degree: int, row: int, column: int) -> str:
        """An element of the frame's matrix of a degree."""
        name, place = element_name(degree, row, column)
        return self.code.let(name + self.pair, lambda: f"tl.load(frame{self.pair} + {place})")

    def number(self, number: Number) -> str:
        """A number of the edge, one of every channel."""
        return f"{self.sign(number)}w_{number.index}{self.pair}"

    def number_change(self, number: Number) -> str | None:
        """How cotangents change it."""
        if self.given.isdisjoint(("phi", "U")):
            return None
        return f"{self.sign(number)}uw_{number.index}{self.pair}"

    def sign(self, number: Number) -> str:
        """Of the edge's number among those of its pair."""
        return "-" if number.flips and self.is_reverse else ""


def number_lines(
    sizes: Sizes, given: frozenset[str], numbers: Sequence[Number], pairs: Sequence[str], masked: bool = False
) -> list[str]:
    """Make numbers, and their changes by cotangents, of one or several pairs: sums over radial functions.

    Every element of the mixing matrix is read once for all of the pairs: reading it costs more than multiplying.

    Args:
        sizes: What the kernel is specialised to.
        given: Inputs with cotangents.
        numbers: The numbers.
        pairs: What is behind the names of variables of each pair.
        masked: Whether some pairs may not be there; their radial functions are zero. `valid` tells.
    """
    moved = [kind for kind in ("phi", "U") if kind in given]
    names = ["w", *(["uw"] if moved else [])]
    lines = [f"{name}_{n.index}{pair} = zero" for n in numbers for pair in pairs for name in names]
    lines.append(f"for k in range({sizes.radial}):")
    turn = []
    for pair in pairs:
        for u in ("", "u")[: 1 + ("phi" in given)]:
            mask = f", mask=valid{pair}, other=0.0" if masked else ""
            turn.append(f"{u}phi{pair} = tl.load({u}phi_row{pair} + k{mask})")
            turn.append(f"{u}phi_flipped{pair} = {u}phi{pair} * sign{pair}")
    for number in numbers:
        place = f"channel + ({number.index * sizes.radial} + k) * {sizes.channels}"
        turn += [f"{name} = {sizes.cut.load(f'{name}_of + {place}')}" for name in ("U", "uU")[: 1 + ("U" in given)]]
        flipped = "_flipped" if number.flips else ""
        for pair in pairs:
            phi = f"phi{flipped}{pair}"
            turn.append(f"w_{number.index}{pair} += {phi} * U")
            terms = [{"phi": f"u{phi} * U", "U": f"{phi} * uU"}[kind] for kind in moved]
            turn += [f"uw_{number.index}{pair} += {' + '.join(terms)}"] if terms else []
    return [*lines, *(f"    {line}" for line in turn)]


class Components(ABC):
    """Components at one end of an edge, in its frame.

    Args:
        tile: Where the code goes.
        name: First letters of the variables.
        side: Tracks.
    """

    def __init__(self, tile: Tile, name: str, side: FrameSide) -> None:
        self.tile, self.name, self.side = tile, name, side

    @abstractmethod
    def value(self, component: int) -> str | None:
        """The variable of a component, None for zero."""

    @abstractmethod
    def change(self, component: int) -> str | None:
        """Its change by the cotangents, None for zero."""

    def generated(self, component: int, axis: int) -> str | None:
        """Its change with a turn about x (0) or y (1), None for zero."""
        known = ((value, self.value(other)) for value, other in self.side.generator(component, axis))
        terms = [(value, name) for value, name in known if name is not None]
        return self.tile.let(f"{self.name}{'xy'[axis]}_{component}", lambda: linear(terms)) if terms else None

    def turned(self, component: int) -> list[str]:
        """Terms of its change by the turn of the edge's direction."""
        if "n" not in self.tile.given:
            return []
        parts = (self.generated(component, axis) for axis in range(2))
        pair = self.tile.pair
        return [f"turn_{axis}{pair} * {part}" for axis, part in zip("xy", parts, strict=True) if part is not None]

    def _sum(self, prefix: str, component: int, terms: Sequence[str]) -> str | None:
        return self.tile.let(f"{prefix}{self.name}_{component}", lambda: " + ".join(terms)) if terms else None


class Feature(Components):
    """A feature of the atoms at one end of the edges, as it is read, and its cotangent.

    Args:
        tile: Where the code goes.
        name: Of the kernel's argument.
        side: Tracks.
        cotangent: Name of the argument with its cotangent, if there is one.
    """

    def __init__(self, tile: Tile, name: str, side: FrameSide, cotangent: str | None = None) -> None:
        super().__init__(tile, name, side)
        self.cotangent = Feature(tile, cotangent, side) if cotangent else None

    @property
    def arguments(self) -> list[str]:
        """What it is read from."""
        return [self.name, *(self.cotangent.arguments if self.cotangent else [])]

    def value(self, component: int) -> str:
        """See `Components.value`."""
        start, track = self.side.located[component]
        if track.degree == 0:
            return self._aligned(component)

        def entered() -> str:
            terms = []
            for k in range(track.dims):
                sign, *place = track_element(track, component - start, k)
                terms.append((float(sign), f"{self.tile.element(track.degree, *place)} * {self._aligned(start + k)}"))
            return linear(terms)

        return self.tile.let(f"{self.name}t_{component}", entered)

    def change(self, component: int) -> str | None:
        """The cotangent; the frame turns with the direction, features stay behind."""
        terms = [self.cotangent.value(component)] if self.cotangent else []
        return self._sum("d", component, [*terms, *(f"-{term}" for term in self.turned(component))])

    def _aligned(self, component: int) -> str:
        """In frame components of z."""
        start, track = self.side.located[component]
        row = self.side.entry(track)[component - start]

        def combined() -> str:
            return linear(combination(row, [self._stored(start + k) for k in range(track.dims)]))

        return self.tile.let(f"{self.name}z_{component}", combined)

    def _stored(self, component: int) -> str:
        sizes = self.tile.sizes
        address = f"{self.name}_row{self.tile.edge} + {component * sizes.channels}"
        return self.tile.let(f"{self.name}_{component}", lambda: sizes.cut.load(address))


class Flow(Components):
    """What a feature at one end of an edge becomes at the other.

    Args:
        sent: The feature.
        side: Tracks at the other end.
        numbers: From the tracks of `sent` to those of `side`.
    """

    def __init__(self, sent: Feature, side: FrameSide, numbers: Iterable[Number]) -> None:
        super().__init__(sent.tile, f"{sent.name}v", side)
        self.sent = sent
        self._links: dict[int, list[tuple[int, Number]]] = {}
        for number in numbers:
            for source, target in number.links:
                self._links.setdefault(target, []).append((source, number))

    def value(self, component: int) -> str | None:
        """See `Components.value`."""
        links = self._links.get(component, [])
        terms = [f"{self.tile.number(number)} * {self.sent.value(source)}" for source, number in links]
        return self._sum("", component, terms)

    def inner_change(self, component: int) -> str | None:
        """By the changes of the feature and of the numbers, in the frame."""
        terms = []
        for source, number in self._links.get(component, []):
            sent, change = self.sent.change(source), self.tile.number_change(number)
            if sent is not None:
                terms.append(f"{self.tile.number(number)} * {sent}")
            if change is not None:
                terms.append(f"{change} * {self.sent.value(source)}")
        return self._sum("i", component, terms)

    def change(self, component: int) -> str | None:
        """The change in the frame, turned back out of the moved frame."""
        inner, turned = self.inner_change(component), self.turned(component)
        return self._sum("d", component, [*([inner] if inner else []), *turned]) if turned else inner

    def multiply(self, numbers: Iterable[Number], order: int) -> list[int]:
        """Compute all that numbers lead to, after which they are not needed; returns the components that they reach."""
        indices = {number.index for number in numbers}
        links = self._links.items()
        reached = [target for target, found in sorted(links) if any(number.index in indices for _, number in found)]
        for component in reached:
            self.value(component)  # needed at order 2, too, if directions turn; otherwise the compiler drops it
            if order == 2:
                self.inner_change(component)
        return reached
