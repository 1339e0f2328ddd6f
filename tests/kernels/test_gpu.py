"""The GPU kernels, run by Triton's interpreter on the CPU, and compiled for a GPU that need not be there."""

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from itertools import product

import pytest
import torch

from cliffordstf.algebra.couplings import admissible_couplings
from cliffordstf.algebra.tracks import BIVECTOR, PSEUDOSCALAR, SCALAR, STF2, STF3, TRACKS, VECTOR, Layout, natural_track
from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels import EdgePath, EdgePlan, NodePath, NodePlan, reference
from cliffordstf.kernels.gpu import EdgeTrilinear, NodeBilinear, available
from cliffordstf.kernels.gpu.program import Kernel
from tests.kernels.gpu import Operation, compare, compile_only, derivatives, needs_gpu, needs_triton, random_tensors

ATOMS = 5
SMALL = (SCALAR, VECTOR)


def symmetric_graph(seed: int, pairs: int = 3) -> EdgeIndex:
    """Random neighbours among the first atoms; the last one has none."""
    chosen = random.Random(seed).sample([(i, j) for i in range(ATOMS - 1) for j in range(i)], pairs)
    edges = sorted([*chosen, *((j, i) for i, j in chosen)])
    receivers, senders = (torch.tensor([edge[side] for edge in edges], dtype=torch.int64) for side in (0, 1))
    reverse = torch.tensor([edges.index((j, i)) for i, j in edges], dtype=torch.int64)
    return EdgeIndex.from_reverse(senders, receivers, torch.searchsorted(receivers, torch.arange(ATOMS + 1)), reverse)


def edge_plan(tracks: Sequence, lmax: int, rows: int | None = None) -> EdgePlan:
    """Every coupling of some tracks with directions, with a row of the weights each or shared rows."""
    source, edge = Layout(tuple(tracks)), Layout(tuple(natural_track(degree) for degree in range(lmax + 1)))
    couplings = admissible_couplings(source.tracks, edge.tracks, source.tracks)
    rows = rows or len(couplings)
    paths = tuple(
        EdgePath(c, source.slice(c.a).start, edge.slice(c.b).start, source.slice(c.c).start, n % rows, 1 / (n + 1.5))
        for n, c in enumerate(couplings)
    )
    return EdgePlan(paths, source.dims, edge.dims, source.dims, rows)


def node_plan(tracks: Sequence, rows: int | None = None) -> NodePlan:
    """Every coupling of some tracks with themselves; no weights for no rows."""
    layout = Layout(tuple(tracks))
    couplings = admissible_couplings(layout.tracks, layout.tracks, layout.tracks)
    rows = len(couplings) if rows is None else rows
    starts = {track: layout.slice(track).start for track in layout}
    paths = tuple(
        NodePath(c, starts[c.a], starts[c.b], starts[c.c], n % rows if rows else 0, 1 / (n + 1.5))
        for n, c in enumerate(couplings)
    )
    return NodePlan(paths, layout.dims, layout.dims, layout.dims, rows)


def edge_case(plan: EdgePlan, index: EdgeIndex, channels: int) -> tuple[Operation, Operation, list[tuple[int, ...]]]:
    """The operator, its reference, and the shapes of their inputs."""
    operator, edges = EdgeTrilinear.from_key(plan.key), len(index.senders)
    return (
        lambda *inputs: operator(inputs, index.to(inputs[0].device)),
        lambda *inputs: reference.edge_trilinear(plan, *inputs, index),
        [(ATOMS, plan.source_dims, channels), (edges, plan.weight_rows, channels), (edges, plan.edge_dims)],
    )


def node_case(
    plan: NodePlan, channels: int, groups: Sequence[int] = ()
) -> tuple[Operation, Operation, list[tuple[int, ...]]]:
    """The operator, its reference, and the shapes of their inputs; there is one group more than are used."""
    operator = NodeBilinear.from_key(plan.key)
    indices = [torch.tensor(groups)] if groups else []
    shape = (ATOMS, plan.left_dims, channels)
    return (
        lambda *inputs: operator(inputs, [tensor.to(inputs[0].device) for tensor in indices]),
        lambda x, y, w: reference.node_bilinear(plan, x, y, w, *indices),
        [shape, shape, (max(groups) + 2 if groups else 1, max(1, plan.weight_rows), channels)],
    )


def check_edges(tracks: Sequence, lmax: int, channels: int, rows: int | None) -> None:
    operation, expected, shapes = edge_case(edge_plan(tracks, lmax, rows), symmetric_graph(lmax), channels)
    compare(operation, expected, random_tensors(shapes, channels))


def check_nodes(tracks: Sequence, channels: int, groups: Sequence[int], rows: int | None) -> None:
    operation, expected, shapes = node_case(node_plan(tracks, rows), channels, groups)
    compare(operation, expected, random_tensors(shapes, channels))


def random_tracks(lmax: int, others: int) -> tuple:
    """A track of the highest degree, and others."""
    chosen = random.Random(lmax)
    highest = chosen.choice([track for track in TRACKS if track.degree == lmax])
    return (highest, *chosen.sample([track for track in TRACKS if track.degree <= lmax and track != highest], others))


@needs_triton
@pytest.mark.parametrize(
    ("tracks", "lmax", "channels", "rows"),
    [
        (SMALL, 1, 64, 1),  # two whole blocks of channels
        (SMALL, 1, 37, 2),  # the second block is cut off
        (SMALL, 0, 1, None),
        (random_tracks(1, 2), 1, 3, 3),
        (random_tracks(2, 2), 2, 6, 4),
        (random_tracks(3, 1), 3, 3, None),
        ((PSEUDOSCALAR, BIVECTOR, STF2), 2, 5, None),
    ],
)
def test_edge_operator(interpreter, tracks, lmax, channels, rows):
    interpreter(check_edges, tracks, lmax, channels, rows)


@needs_triton
@pytest.mark.parametrize(
    ("tracks", "channels", "groups", "rows"),
    [
        (SMALL, 37, (2, 0, 0, 2, 2), None),  # group 1 has no atoms
        (SMALL, 64, (), 2),
        (random_tracks(1, 2), 2, (), 0),  # no weights
        (random_tracks(2, 2), 6, (0, 1, 0, 1, 1), 3),
        ((SCALAR, STF3), 3, (1, 1, 1, 1, 1), None),
    ],
)
def test_node_product(interpreter, tracks, channels, groups, rows):
    interpreter(check_nodes, tracks, channels, groups, rows)


def check_absent_cotangents(kind: str) -> None:
    """Every choice of cotangents and of wanted results, against autograd through the reference."""
    index = symmetric_graph(0, pairs=2)
    if kind == "edges":
        operator, context = EdgeTrilinear.from_key(edge_plan(SMALL, 1).key), tuple(index)
        _, expected, shapes = edge_case(edge_plan(SMALL, 1), index, 2)
    else:
        operator, context = NodeBilinear.from_key(node_plan(SMALL).key), (torch.tensor([0, 1, 1, 0, 1]),)
        _, expected, shapes = node_case(node_plan(SMALL), 2, (0, 1, 1, 0, 1))
    inputs = [tensor.requires_grad_() for tensor in random_tensors(shapes, 1)]
    (gradient,) = (tensor.requires_grad_() for tensor in random_tensors([operator.shape(inputs, context)], 2))
    first = torch.autograd.grad(expected(*inputs), inputs, gradient, create_graph=True)
    cotangents = random_tensors(shapes, 3)
    plain = [tensor.detach() for tensor in (gradient, *inputs)]
    for given in product((False, True), repeat=3):
        loss = sum((u * d).sum() for u, d, known in zip(cotangents, first, given, strict=True) if known)
        grown = loss + 0 * sum(tensor.sum() for tensor in (gradient, *inputs))
        second = torch.autograd.grad(grown, [gradient, *inputs], retain_graph=True)
        chosen = [u if known else None for u, known in zip(cotangents, given, strict=True)]
        for wanted in ([True] * 4, [False, True, False, False], [False, False, True, True]):
            got = operator.second(chosen, plain[0], plain[1:], context, wanted)
            assert [tensor is not None for tensor in got] == [True, *wanted[1:]]
            for result, answer in zip(got, second, strict=True):
                if result is not None:
                    torch.testing.assert_close(result, answer, rtol=1e-12, atol=1e-12)


@needs_triton
@pytest.mark.parametrize("kind", ["edges", "nodes"])
def test_absent_cotangents_are_zero_and_unwanted_results_none(interpreter, kind):
    interpreter(check_absent_cotangents, kind)


def check_numerical_derivatives() -> None:
    cases = [edge_case(edge_plan(SMALL, 1, 2), symmetric_graph(0, pairs=1), 2), node_case(node_plan(SMALL), 2)]
    for operation, _, shapes in cases:
        inputs = [tensor.requires_grad_() for tensor in random_tensors(shapes, 4)]
        assert torch.autograd.gradcheck(operation, inputs, fast_mode=True)
        assert torch.autograd.gradgradcheck(operation, inputs, fast_mode=True)


@needs_triton
def test_derivatives_are_those_of_finite_differences(interpreter):
    interpreter(check_numerical_derivatives)


def check_single_precision() -> None:
    cases = [edge_case(edge_plan(SMALL, 1), symmetric_graph(0), 3), node_case(node_plan(SMALL), 3)]
    for operation, expected, shapes in cases:
        inputs = random_tensors(shapes, 5, torch.float32)
        assert all(result.dtype == torch.float32 for result in derivatives(operation, inputs))
        compare(operation, expected, inputs, tolerance=1e-5)


@needs_triton
def test_single_precision(interpreter):
    interpreter(check_single_precision)


def check_nothing_to_sum() -> None:
    plan, index = edge_plan(SMALL, 1), symmetric_graph(0, pairs=0)
    results = derivatives(edge_case(plan, index, 2)[0], random_tensors(edge_case(plan, index, 2)[2], 6))
    assert results[0].shape == (ATOMS, plan.target_dims, 2)
    assert not any(result.any() for result in results)
    empty = [torch.zeros(0, 4, 2, dtype=torch.float64), torch.zeros(0, 4, 2, dtype=torch.float64)]
    weights = torch.ones(1, node_plan(SMALL).weight_rows, 2, dtype=torch.float64)
    for result in derivatives(node_case(node_plan(SMALL), 2)[0], [*empty, weights]):
        assert not result.any()


@needs_triton
def test_no_edges_and_no_atoms(interpreter):
    interpreter(check_nothing_to_sum)


def check_unused_components() -> None:
    """Rows of the weights, and components of all tensors, that no path touches."""
    whole = edge_plan((SCALAR, VECTOR, PSEUDOSCALAR), 1)
    plan = EdgePlan(whole.paths[:1], whole.source_dims, whole.edge_dims, whole.target_dims, whole.weight_rows)
    operation, _, shapes = edge_case(plan, symmetric_graph(0), 2)
    result, dh, dw, dy, *_ = derivatives(operation, random_tensors(shapes, 7))
    assert not any(part.any() for part in (result[:, 1:], dh[:, 1:], dw[:, 1:], dy[:, 1:]))
    assert all(part.any() for part in (result[:, :1], dh[:, :1], dw[:, :1], dy[:, :1]))


@needs_triton
def test_what_no_path_touches_is_zero(interpreter):
    interpreter(check_unused_components)


def check_registered_operators() -> None:
    for operator, (operation, _, shapes), context in (
        (EdgeTrilinear, edge_case(edge_plan(SMALL, 1), symmetric_graph(0), 2), tuple(symmetric_graph(0))),
        (NodeBilinear, node_case(node_plan(SMALL), 2), ()),
    ):
        key = (edge_plan(SMALL, 1) if operator is EdgeTrilinear else node_plan(SMALL)).key
        inputs = random_tensors(shapes, 8)
        registered = torch.ops.cliffordstf.forward(operator.kind, key, [*inputs, *context], len(inputs))
        torch.testing.assert_close(registered, operation(*inputs), rtol=0, atol=0)


@needs_triton
def test_custom_operators_find_the_kernels(interpreter):
    interpreter(check_registered_operators)


def check_compiles(dtype: torch.dtype) -> None:
    Kernel.launch = compile_only  # type: ignore[method-assign]
    cases = [
        edge_case(edge_plan(SMALL, 1), symmetric_graph(0), 37),
        node_case(node_plan((SCALAR,)), 32, (0, 1, 1, 0, 0)),
        node_case(node_plan((SCALAR,)), 32),
    ]
    for operation, _, shapes in cases:
        derivatives(operation, random_tensors(shapes, 9, dtype))


@needs_triton
def test_kernels_compile_for_a_gpu(compiler):
    compiler(check_compiles, torch.float32)
    compiler(check_compiles, torch.float64)


@needs_gpu
@needs_triton
@pytest.mark.parametrize("channels", [32, 50])
def test_on_a_gpu(channels, tmp_path, monkeypatch):
    monkeypatch.setenv("CLIFFORDSTF_CACHE", str(tmp_path))
    tracks = (SCALAR, VECTOR, BIVECTOR, STF2)
    cases = [
        edge_case(edge_plan(tracks, 2), symmetric_graph(0), channels),
        node_case(node_plan(tracks), channels, (0, 1, 1, 0, 0)),
    ]
    for operation, expected, shapes in cases:
        inputs = random_tensors(shapes, 10)
        results, again = (derivatives(operation, [tensor.cuda() for tensor in inputs]) for _ in range(2))
        for result, other, answer in zip(results, again, derivatives(expected, inputs), strict=True):
            assert torch.equal(result, other)
            torch.testing.assert_close(result.cpu(), answer, rtol=1e-11, atol=1e-11)


def test_nothing_needs_triton_to_be_imported():
    code = "import sys; sys.modules['triton'] = None; from cliffordstf.kernels import gpu; print(gpu.available())"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@needs_triton
def test_available_where_triton_can_run(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert not available()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "triton", torch)  # any module: importing the real one would set its mode
    assert available()
