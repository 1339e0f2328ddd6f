"""Statements that the convolution's kernels begin with, up to where its tiles take over (`tile.py`)."""

from collections.abc import Iterable

from cliffordstf.algebra.frames import AXES
from cliffordstf.kernels.gpu.frames import element_name
from cliffordstf.kernels.gpu.tile import Sizes


def indented(lines: Iterable[str]) -> list[str]:
    """Statements of a loop."""
    return [f"    {line}" for line in lines]


def operand_names(given: frozenset[str]) -> list[str]:
    """Arguments that numbers and turns are made of."""
    return ["phi_of", "U_of", *(f"u{name}_of" for name in ("phi", "U", "n") if name in given)]


def program_lines(sizes: Sizes, part: str) -> list[str]:
    """Which channels a program has, of which part of the work."""
    block, blocks = sizes.cut.block, sizes.cut.blocks
    return [
        # 64 bits: what is computed from the part addresses more than 2^31 values in a large system.
        f"{part} = (tl.program_id(0) // {blocks}).to(tl.int64)",
        f"block = tl.program_id(0) % {blocks}",
        f"channel = block * {block} + tl.arange(0, {block})",
        f"zero = tl.zeros([{block}], dtype=tl.{sizes.dtype})",
        *([f"inside = channel < {sizes.channels}"] if sizes.cut.masked else []),
    ]


def pair_lines(sizes: Sizes, given: frozenset[str], pair: str = "") -> list[str]:
    """What belongs to a pair whichever way its edge goes: `pair` behind its name is its index."""
    lines = [f"frame{pair} = frames + pair{pair} * {sizes.frame}", f"way{pair} = tl.load(frame{pair})"]
    for u in ("", "u")[: 1 + ("phi" in given)]:
        lines.append(f"{u}phi_row{pair} = {u}phi_of + pair{pair} * {sizes.radial}")
    return [*lines, *_turn_lines(pair)] if "n" in given else lines


def _turn_lines(pair: str) -> list[str]:
    """Angles by which the cotangent of a direction turns it, and its part along the direction."""
    lines = []
    for row, name in enumerate(("tilt", "moved_x", "moved_y")):
        places = (element_name(1, row, column)[1] for column in range(3))
        terms = [
            f"tl.load(frame{pair} + {place}) * tl.load(un_of + 3 * pair{pair} + {axis})"
            for place, axis in zip(places, AXES, strict=True)
        ]
        lines.append(f"{name}{pair} = way{pair} * ({' + '.join(terms)})")
    return [*lines, f"turn_x{pair} = -moved_y{pair}", f"turn_y{pair} = moved_x{pair}"]
