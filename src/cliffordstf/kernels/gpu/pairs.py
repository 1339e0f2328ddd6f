"""The convolution's gradients that belong to a pair, or are sums over all pairs.

The two edges of a pair have the same frame, and the same numbers up to signs: they are evaluated together where there
are registers for both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cliffordstf.algebra.frames import AXES
from cliffordstf.kernels.gpu.code import linear
from cliffordstf.kernels.gpu.frames import FramePlan, Number, element_name
from cliffordstf.kernels.gpu.preamble import indented, operand_names, pair_lines, program_lines
from cliffordstf.kernels.gpu.program import Kernel
from cliffordstf.kernels.gpu.tile import Code, Feature, Flow, Sizes, Tile, number_lines

_REVERSE = (False, True)
"""Whether an edge is the reverse edge of its pair, for both of them."""


@dataclass(frozen=True)
class Ends:
    """What the sender of an edge sent, and the gradient of what its receiver got."""

    sent: Feature
    received: Feature


def edges_of_directions(order: int) -> list[tuple[bool, ...]]:
    """Which edges of a pair each kernel takes for gradients of directions: at order 2 there are registers for one."""
    return [_REVERSE] if order == 1 else [(reverse,) for reverse in _REVERSE]


def radial_kernel(plan: FramePlan, sizes: Sizes, order: int, given: frozenset[str]) -> Kernel:
    """Gradients of the radial functions, (pairs, blocks of channels, functions): one program a pair and block."""
    code, ends = _ends(plan, sizes, given, _REVERSE)
    terms = []
    for number in plan.numbers:
        gradients = _number_gradients(number, ends, order, "U" in given)
        for gradient, mixing in zip(gradients, ("U_of", "uU_of"), strict=True):
            place = f"{mixing} + address + {number.index * sizes.radial * sizes.channels}"
            terms += [f"{gradient} * {sizes.cut.load(place)}"] if gradient else []
    program = [
        *_pair_program(sizes, given),
        *code.lines,
        f"out_row = out + (pair * {sizes.cut.blocks} + block) * {sizes.radial}",
        f"for k in range({sizes.radial}):",
        *indented(
            [
                f"address = channel + k * {sizes.channels}",
                "total = zero",
                *(f"total += {term}" for term in terms),
                "tl.store(out_row + k, tl.sum(total, axis=0))",
            ]
        ),
    ]
    return Kernel(f"convolution_radial_{order}", _arguments(given), program, sizes.cut.blocks)


def direction_kernel(
    plan: FramePlan, sizes: Sizes, order: int, given: frozenset[str], reverse: tuple[bool, ...]
) -> Kernel:
    """Gradients of the directions along the sphere, (pairs, blocks of channels, 3): one program a pair and block.

    A turn of the direction turns the features at both ends of an edge. `reverse` has an entry for each edge of a pair
    that is evaluated: whether it is the reverse one.
    """
    code, ends = _ends(plan, sizes, given, reverse)
    code.lines += [f"torque_{axis} = zero" for axis in "xy"]
    back = plan.transposed
    flows = [(Flow(end.sent, plan.target, plan.numbers), end.received) for end in ends]
    flows += [(Flow(end.received, plan.source, back.numbers), end.sent) for end in ends]
    for numbers in plan.by_order:
        code.lines += number_lines(sizes, given, numbers, [""])
        for flow, _ in flows:
            flow.multiply(numbers, order)
    for flow, here in flows:
        _add_torque(flow, here, order)
    program = [
        *_pair_program(sizes, given),
        *code.lines,
        *(f"angle_{axis} = way * tl.sum(torque_{axis}, axis=0)" for axis in "xy"),
        f"out_row = out + (pair * {sizes.cut.blocks} + block) * 3",
    ]
    for column, axis in enumerate(AXES):
        along_x, along_y = (f"tl.load(frame + {element_name(1, row, column)[1]})" for row in (1, 2))
        program.append(f"tl.store(out_row + {axis}, {along_y} * angle_x - {along_x} * angle_y)")
    return Kernel(f"convolution_directions_{order}", _arguments(given), program, sizes.cut.blocks)


def mixing_kernel(
    plan: FramePlan, sizes: Sizes, order: int, given: frozenset[str], numbers: tuple[Number, ...]
) -> Kernel:
    """Gradients of the mixing matrix, for some of the numbers: one program a chunk of the pairs and block of channels.

    The result is (chunks, these numbers, radial functions, channels).
    """
    code, ends = _ends(plan, sizes, given, _REVERSE)
    for place, number in enumerate(numbers):
        gradients = _number_gradients(number, ends, order, "phi" in given)
        for k in range(sizes.radial):
            terms = [
                f"{_radial_function(code, row, k)} * {gradient}"
                for gradient, row in zip(gradients, ("phi_row", "uphi_row"), strict=True)
                if gradient
            ]
            code.lines += [f"dU_{place}_{k} += {' + '.join(terms)}"] if terms else []
    sums = [f"dU_{place}_{k}" for place in range(len(numbers)) for k in range(sizes.radial)]
    program = [
        *program_lines(sizes, "chunk"),
        *(f"{name} = zero" for name in sums),
        "for pair in range(count * chunk // chunks, count * (chunk + 1) // chunks):",
        *indented([*_edge_lines(sizes, given), *code.lines]),
        f"out_row = out + chunk * {len(sums) * sizes.channels} + channel",
        *(sizes.cut.store(f"out_row + {row * sizes.channels}", name) for row, name in enumerate(sums)),
    ]
    label = f"convolution_mixing_{order}_{numbers[0].index}"
    return Kernel(label, [*_arguments(given), "count", "chunks"], program, sizes.cut.blocks)


def _radial_function(code: Code, row: str, k: int) -> str:
    return code.let(f"{row}_{k}", lambda: f"tl.load({row} + {k})")


def _arguments(given: frozenset[str]) -> list[str]:
    features = ["h", "g", *(["uh"] if "h" in given else [])]
    return ["senders", "receivers", "pair_edges", "frames", *features, *operand_names(given), "out"]


def _pair_program(sizes: Sizes, given: frozenset[str]) -> list[str]:
    """A program with one pair."""
    return [*program_lines(sizes, "pair"), *_edge_lines(sizes, given)]


def _edge_lines(sizes: Sizes, given: frozenset[str]) -> list[str]:
    """A pair, and the atoms at the ends of its edges; the forward edge gives numbers their signs."""
    return [
        *pair_lines(sizes, given),
        "sign = way",
        "edge = tl.load(pair_edges + 2 * pair)",
        "sender = tl.load(senders + edge)",
        "receiver = tl.load(receivers + edge)",
    ]


def _ends(plan: FramePlan, sizes: Sizes, given: frozenset[str], reverse: Sequence[bool]) -> tuple[Code, list[Ends]]:
    """The features at the ends of a pair's edges, and the code that reads them."""
    code, found = Code(), []
    cotangent = "uh" if "h" in given else None
    for is_reverse in reverse:
        edge = "_reverse" if is_reverse else "_forward"
        tile = Tile(sizes, given, code, "", edge, is_reverse)
        end = Ends(Feature(tile, "h", plan.source, cotangent), Feature(tile, "g", plan.target))
        for feature in (end.sent, end.received):
            atom = "sender" if (feature is end.sent) != is_reverse else "receiver"
            place = f"{atom} * {feature.side.components * sizes.channels} + channel"
            code.lines += [f"{name}_row{edge} = {name} + {place}" for name in feature.arguments]
        found.append(end)
    return code, found


def _number_gradients(
    number: Number, ends: Sequence[Ends], order: int, with_cotangent: bool
) -> tuple[str | None, str | None]:
    """Gradients of a number of a pair: what multiplies operands, and what multiplies their cotangents, None for zero.

    The first is <g, h>. At order 2 that multiplies the cotangents, and its change multiplies the operands.
    """
    if order == 1:
        return _gradient("dw", number, ends, False), None
    return _gradient("iw", number, ends, True), _gradient("dw", number, ends, False) if with_cotangent else None


def _gradient(name: str, number: Number, ends: Sequence[Ends], is_change: bool) -> str | None:
    terms = [
        (-1.0 if number.flips and end.sent.tile.is_reverse else 1.0, term)
        for end in ends
        for source, target in number.links
        for term in _products(end.sent, source, end.received, target, is_change)
    ]
    if not terms:
        return None
    value = f"sign * ({linear(terms)})" if number.flips else linear(terms)
    return ends[0].sent.tile.code.let(f"{name}_{number.index}", lambda: value)


def _products(sent: Feature, source: int, received: Feature, target: int, is_change: bool) -> Iterator[str]:
    """Terms of <g, h>, or of its change."""
    if not is_change:
        yield f"{received.value(target)} * {sent.value(source)}"
        return
    for one, other in (
        (received.value(target), sent.change(source)),
        (received.change(target), sent.value(source)),
    ):
        if one is not None and other is not None:
            yield f"{one} * {other}"


def _add_torque(flow: Flow, here: Feature, order: int) -> None:
    """Torque between what arrives and what is there: <J here, flow>, or its change by the cotangents.

    A cotangent of a direction turns with it, which adds its part along the direction times the torque of order 1.
    """
    for component in here.side.located:
        arrived = _arriving(flow, component, order)
        cotangent = here.cotangent if order == 2 else None
        for axis in range(2):
            pairs = [(here.generated(component, axis), arrived)]
            if cotangent:
                pairs.append((cotangent.generated(component, axis), flow.value(component)))
            terms = [f"{one} * {other}" for one, other in pairs if one is not None and other is not None]
            flow.tile.add(f"torque_{'xy'[axis]}", terms)


def _arriving(flow: Flow, component: int, order: int) -> str | None:
    if order < 2:
        return flow.value(component)
    change = flow.change(component)
    value = flow.value(component) if "n" in flow.tile.given else None
    if value is None:
        return change
    terms = [*([change] if change else []), f"-tilt * {value}"]
    return flow.tile.let(f"a{flow.name}_{component}", lambda: " + ".join(terms))
