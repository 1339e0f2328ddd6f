"""The convolution's sums at atoms: one program an atom and block of channels, a few of the atom's edges at a time."""

from collections.abc import Iterator, Sequence

from cliffordstf.kernels.gpu.code import linear
from cliffordstf.kernels.gpu.frames import FramePlan, combination, track_element
from cliffordstf.kernels.gpu.preamble import indented, operand_names, pair_lines, program_lines
from cliffordstf.kernels.gpu.program import Kernel
from cliffordstf.kernels.gpu.tile import Code, Feature, Flow, Sizes, Tile, number_lines

EDGES = {0: 2, 1: 2, 2: 1}
"""Edges of a turn of the loop, for each order of the derivative.

Edges of a turn share what is read of the mixing matrix. At one edge a turn there is a read, from the nearest cache if
all goes well, for every multiplication, and a GPU does four of the latter in the time of the former; more edges would
help. But for two edges of 20 components (degree 3), in single precision, ptxas takes 254 registers of the 255 that a
thread may have. At order 2, where every component has a change beside it, one edge takes as many. Beyond that, at
degree 4 or in double precision, some are spilled to local memory.

So only 8 programs, of one warp each, fit on a multiprocessor, and what hides latency are the independent reads of a
program. Products on tensor cores (`tl.dot`, 16 edges a tile) were compiled, too: Triton then moved every number through
shared memory, with 170 barriers a tile, and spilled kilobytes.
"""


def gather_kernel(plan: FramePlan, sizes: Sizes, order: int, given: frozenset[str], backward: bool) -> Kernel:
    """Sums over the edges of an atom, of the operator or of one of its derivatives.

    Args:
        plan: The numbers, from senders to receivers.
        sizes: What the kernel is specialised to.
        order: 2 for the change of the result by cotangents, 0 or 1 for the result itself.
        given: Inputs with cotangents.
        backward: Whether gradients of what receivers got are summed at the senders. Every edge that leaves an atom is
            the reverse of one that reaches it.
    """
    direction = plan.transposed if backward else plan
    name, cotangent = ("g", None) if backward else ("h", "uh" if "h" in given else None)
    code = Code()
    edges = [str(edge) for edge in range(EDGES[order])]
    features = [Feature(Tile(sizes, given, code, edge, edge), name, direction.source, cotangent) for edge in edges]
    arguments = features[0].arguments
    for edge in edges:
        code.lines += _edge_lines(direction, sizes, given, backward, edge, arguments)
    flows = [Flow(feature, direction.target, direction.numbers) for feature in features]
    _convolve(flows, direction, order)
    program = [
        *program_lines(sizes, "part"),
        "begin = tl.load(row_pointers + part)",
        "end = tl.load(row_pointers + part + 1)",
        *(f"sum_{i} = zero" for i in direction.target.located),
        f"for first in range(begin, end, {len(edges)}):",
        *indented(code.lines),
        *_stores(flows[0], sizes),
    ]
    parameters = ["row_pointers", "senders", "pair_numbers", "turned", "frames", "out"]
    label = f"convolution_{'senders' if backward else 'receivers'}_{order}"
    return Kernel(label, [*parameters, *arguments, *operand_names(given)], program, sizes.cut.blocks)


def _edge_lines(
    plan: FramePlan, sizes: Sizes, given: frozenset[str], backward: bool, edge: str, features: Sequence[str]
) -> list[str]:
    """An edge that reaches the atom. Behind the last one it is repeated, with radial functions of zero."""
    kept, other = ("-way", "way") if backward else ("way", "-way")
    return [
        f"valid{edge} = first + {edge} < end",
        f"edge{edge} = tl.minimum(first + {edge}, end - 1)",
        f"pair{edge} = tl.load(pair_numbers + edge{edge})",
        *pair_lines(sizes, given, edge),
        f"sign{edge} = tl.where(tl.load(turned + edge{edge}) == 0, {kept}{edge}, {other}{edge})",
        f"row{edge} = tl.load(senders + edge{edge}) * {plan.source.components * sizes.channels} + channel",
        *(f"{name}_row{edge} = {name} + row{edge}" for name in features),
    ]


def _convolve(flows: Sequence[Flow], plan: FramePlan, order: int) -> None:
    """One order of components after the other, so that few numbers are needed at a time."""
    tile = flows[0].tile
    pairs = [flow.tile.pair for flow in flows]
    for numbers in plan.by_order:
        tile.code.lines += number_lines(tile.sizes, tile.given, numbers, pairs, masked=True)
        for flow in flows:
            reached = flow.multiply(numbers, order)
            if order < 2:
                _leave(flow, reached, order)
    if order == 2:
        for flow in flows:
            _leave(flow, sorted(flow.side.located), order)


def _leave(flow: Flow, components: Sequence[int], order: int) -> None:
    """Add what leaves the frame to the sums, which are in frame components of z."""
    for component in components:
        start, track = flow.side.located[component]
        arrived = flow.change(component) if order == 2 else flow.value(component)
        if arrived is None:
            continue
        if track.degree == 0:
            flow.tile.add(f"sum_{start}", [arrived])
            continue
        for k in range(track.dims):
            sign, *place = track_element(track, component - start, k)
            element = flow.tile.element(track.degree, *place)
            flow.tile.code.lines.append(f"sum_{start + k} {'+' if sign > 0 else '-'}= {element} * {arrived}")


def _stores(flow: Flow, sizes: Sizes) -> Iterator[str]:
    """The sums in stored components; zeros where no path leads."""
    side = flow.side
    yield f"out_row = out + part * {side.components * sizes.channels} + channel"
    for i in range(side.components):
        value = "zero"
        if i in side.located:
            start, track = side.located[i]
            value = linear(combination(side.entry(track).T[i - start], [f"sum_{start + k}" for k in range(track.dims)]))
        yield sizes.cut.store(f"out_row + {i * sizes.channels}", value)
