"""The convolution in frames on GPUs, run by Triton's interpreter on the CPU, and compiled for a GPU."""

import itertools
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from cliffordstf.algebra.tracks import BIVECTOR, GRADES, PSEUDOSCALAR, SCALAR, STF2, STF3, STF4, VECTOR, Layout
from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels import EdgePath, EdgePlan, ops, reference
from cliffordstf.kernels.gpu import EdgeConvolution
from cliffordstf.kernels.gpu.frames import frame_size
from cliffordstf.kernels.gpu.program import Kernel
from tests.kernels.gpu import compile_only, derivatives, needs_gpu, needs_triton, random_tensors
from tests.kernels.graphs import edge_index, edge_plan, molecules, random_graph

SCALARS = (SCALAR,)
SMALL = (SCALAR, VECTOR)
MEDIUM = (SCALAR, VECTOR, BIVECTOR, STF2)
NATURAL = (SCALAR, VECTOR, STF2, STF3)
ALL = (*GRADES, STF2, STF3, STF4)

Shapes = list[tuple[int, ...]]
Map = Callable[..., Tensor]


def plan_of(source: Sequence, lmax: int, target: Sequence, rows: int | None = None) -> EdgePlan:
    return edge_plan(Layout(tuple(source)), lmax, Layout(tuple(target)), rows)


def graph(kind: str) -> EdgeIndex:
    if kind == "molecules":
        return molecules(2, 3)
    if kind == "chain":  # atoms with one and with two neighbours, and one without
        return edge_index([(0, 1), (1, 2)], 4)
    return random_graph(6, 0.0 if kind == "no edges" else 0.7, torch.Generator().manual_seed(3))


def shapes_of(plan: EdgePlan, edges: EdgeIndex, channels: int, radial: int) -> Shapes:
    atoms, pairs = len(edges.row_pointers) - 1, len(edges.pair_edges)
    return [(atoms, plan.source_dims, channels), (pairs, radial), (radial, plan.weight_rows, channels), (pairs, 3)]


def case(plan: EdgePlan, edges: EdgeIndex) -> tuple[Map, Map]:
    """The operator and its reference, as functions of vectors that need not be unit vectors."""
    operator = EdgeConvolution.from_key(plan.key)

    def ours(h: Tensor, radial: Tensor, mixing: Tensor, vectors: Tensor) -> Tensor:
        unit = vectors / vectors.norm(dim=1, keepdim=True)
        return operator([h, radial, mixing, unit], tuple(edges.to(h.device)))

    def theirs(h: Tensor, radial: Tensor, mixing: Tensor, vectors: Tensor) -> Tensor:
        unit = vectors / vectors.norm(dim=1, keepdim=True)
        return reference.edge_convolution(plan, h, radial, mixing, unit, edges)

    return ours, theirs


def close(found: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        scale = float(theirs.detach().abs().max()) if theirs.numel() else 0.0
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance * max(1.0, scale))


def check_derivatives(plan: EdgePlan, edges: EdgeIndex, channels: int, radial: int, dtype: torch.dtype) -> None:
    ours, theirs = case(plan, edges)
    inputs = random_tensors(shapes_of(plan, edges, channels, radial), channels, dtype)
    close(derivatives(ours, inputs), derivatives(theirs, inputs), 1e-11 if dtype == torch.float64 else 2e-5)


@needs_triton
@pytest.mark.parametrize(
    ("source", "lmax", "target", "channels", "radial", "kind"),
    [
        (SCALARS, 1, SMALL, 1, 1, "random"),
        (SMALL, 1, SMALL, 64, 3, "molecules"),  # two whole blocks of channels
        (SMALL, 1, SMALL, 37, 2, "random"),  # the second block is cut off
        (MEDIUM, 2, MEDIUM, 6, 3, "random"),
        ((PSEUDOSCALAR, BIVECTOR), 2, MEDIUM, 3, 4, "molecules"),
        (SCALARS, 3, NATURAL, 5, 8, "molecules"),
        (NATURAL, 3, SCALARS, 2, 3, "random"),
        (NATURAL, 3, NATURAL, 3, 4, "chain"),  # two groups of numbers in gradients of the mixing matrix
        ((VECTOR, STF4), 4, (SCALAR, BIVECTOR, STF4), 2, 2, "chain"),
        (MEDIUM, 2, MEDIUM, 2, 3, "no edges"),
    ],
)
def test_equals_the_reference(interpreter, source, lmax, target, channels, radial, kind):
    interpreter(check_derivatives, plan_of(source, lmax, target), graph(kind), channels, radial, torch.float64)


@needs_triton
def test_single_precision_and_shared_rows_of_weights(interpreter):
    interpreter(check_derivatives, plan_of(NATURAL, 3, NATURAL, 5), graph("chain"), 3, 4, torch.float32)


def check_numerically() -> None:
    plan, edges = plan_of(SMALL, 1, SMALL), edge_index([(0, 1)], 3)
    inputs = [tensor.requires_grad_() for tensor in random_tensors(shapes_of(plan, edges, 2, 2), 4)]
    ours, _ = case(plan, edges)
    assert torch.autograd.gradcheck(ours, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(ours, inputs, fast_mode=True)


@needs_triton
def test_derivatives_are_those_of_finite_differences(interpreter):
    interpreter(check_numerically)


def check_special_directions() -> None:
    """Along both ways of every axis, and nearly: the mirror never cancels."""
    axes = torch.eye(3, dtype=torch.float64)
    edges = edge_index([(0, j) for j in range(1, 9)], 9)
    tilted = [[1e-9, 0, 1], [1e-9, 0, -1]]
    plan = plan_of((VECTOR, STF2), 3, (SCALAR, VECTOR, STF2))
    ours, theirs = case(plan, edges)
    *others, _ = random_tensors(shapes_of(plan, edges, 2, 2), 5)
    inputs = [*others, torch.cat([axes, -axes, torch.tensor(tilted, dtype=torch.float64)])]
    close(derivatives(ours, inputs), derivatives(theirs, inputs), 1e-11)


@needs_triton
def test_directions_along_the_axes(interpreter):
    interpreter(check_special_directions)


def check_absent_cotangents() -> None:
    """Every choice of cotangents and some of wanted results, against autograd through the reference."""
    plan, edges = plan_of(SMALL, 1, SMALL), edge_index([(0, 1)], 3)
    operator, context = EdgeConvolution.from_key(plan.key), tuple(edges)
    inputs = random_tensors(shapes_of(plan, edges, 2, 2), 1)
    inputs[3] /= inputs[3].norm(dim=1, keepdim=True)
    (gradient,) = random_tensors([operator.shape(inputs, context)], 2)
    cotangents = random_tensors([tensor.shape for tensor in inputs], 3)
    leaves = [tensor.clone().requires_grad_() for tensor in (gradient, *inputs)]
    _, theirs = case(plan, edges)  # it normalises, so that its gradients are those along the sphere
    first = torch.autograd.grad(theirs(*leaves[1:]), leaves[1:], leaves[0], create_graph=True)
    for given in itertools.product((False, True), repeat=4):
        total = sum((u * d).sum() for u, d, known in zip(cotangents, first, given, strict=True) if known)
        total = total + 0 * sum(tensor.sum() for tensor in leaves)
        expected = torch.autograd.grad(total, leaves, retain_graph=True)
        chosen = [u if known else None for u, known in zip(cotangents, given, strict=True)]
        for wanted in ([True] * 5, [False, True, False, False, True], [True, False, True, True, False]):
            found = operator.second(chosen, gradient, inputs, context, wanted)
            assert [tensor is not None for tensor in found] == wanted
            pairs = [(f, e) for f, e in zip(found, expected, strict=True) if f is not None]
            # The reference normalises what the operator is given as unit vectors: equal is what lies along the sphere.
            close(*zip(*(_along_sphere(f, e, inputs[3]) for f, e in pairs), strict=True), tolerance=1e-11)


def _along_sphere(found: Tensor, expected: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
    if found.shape != directions.shape:
        return found, expected
    return found, expected - (expected * directions).sum(1, keepdim=True) * directions


@needs_triton
def test_absent_cotangents_are_zero_and_unwanted_results_none(interpreter):
    interpreter(check_absent_cotangents)


def check_unused_components() -> None:
    """Rows of the weights, and components of features, that no path touches."""
    whole = plan_of((SCALAR, VECTOR, PSEUDOSCALAR), 1, (SCALAR, VECTOR))
    path: EdgePath = whole.paths[0]
    plan = EdgePlan((path,), whole.source_dims, whole.edge_dims, whole.target_dims, whole.weight_rows)
    edges = graph("molecules")
    inputs = random_tensors(shapes_of(plan, edges, 2, 2), 7)
    operator = EdgeConvolution.from_key(plan.key)
    out = operator.forward(inputs, tuple(edges))
    dh, _, dU, _ = operator.backward(torch.ones_like(out), inputs, tuple(edges), [True] * 4)
    for tensor, start, dims in ((out, path.target, path.coupling.c.dims), (dh, path.source, path.coupling.a.dims)):
        assert tensor[:, start : start + dims].any()
        tensor[:, start : start + dims] = 0
        assert not tensor.any()
    assert dU[:, path.weight].any()
    dU[:, path.weight] = 0
    assert not dU.any()


@needs_triton
def test_what_no_path_touches_is_zero(interpreter):
    interpreter(check_unused_components)


def check_separate_structures() -> None:
    plan, edges = plan_of(SMALL, 1, SMALL), molecules(2, 4)  # three edges an atom: an odd one is left over
    inputs = random_tensors(shapes_of(plan, edges, 2, 2), 8)
    inputs[0][:4] = torch.nan
    operator = EdgeConvolution.from_key(plan.key)
    out = operator.forward(inputs, tuple(edges))
    assert out[:4].isnan().all()
    assert out[4:].isfinite().all()
    _, dphi, _, dn = operator.backward(torch.ones_like(out), inputs, tuple(edges), [False, True, False, True])
    healthy = edges.senders[edges.pair_edges[:, 0]] >= 4
    for gradient in (dphi, dn):
        assert gradient[healthy].isfinite().all()
        assert gradient[~healthy].isnan().any()


@needs_triton
def test_a_broken_structure_breaks_no_other(interpreter):
    interpreter(check_separate_structures)


class Allocations(TorchDispatchMode):
    """Counts the numbers in tensors that are made, whatever becomes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        if isinstance(result, Tensor) and not function._schema.returns[0].alias_info:
            self.numbers += result.numel()
        return result


def allocated(plan: EdgePlan, edges: EdgeIndex, channels: int, radial: int) -> list[int]:
    """Numbers that the operator, its gradient and the gradient of that allocate; not for the mixing matrix."""
    operator, context = EdgeConvolution.from_key(plan.key), tuple(edges)
    inputs = random_tensors(shapes_of(plan, edges, channels, radial), 9)
    gradient = torch.ones(operator.shape(inputs, edges), dtype=torch.float64)
    cotangents, wanted = [*inputs[:2], None, inputs[3]], [True, True, False, True]
    found = []
    for call in (
        lambda: operator.forward(inputs, context),
        lambda: operator.backward(gradient, inputs, context, wanted),
        lambda: operator.second(cotangents, gradient, inputs, context, [True, *wanted]),
    ):
        with Allocations() as made:
            call()
        found.append(made.numbers)
    return found


def check_memory(channels: int, radial: int) -> None:
    """What a pair more costs: its frame, and sums over each block of channels beside the results."""
    plan, blocks, frame = plan_of(SMALL, 3, (SCALAR, STF3)), -(-channels // 32), frame_size(3)
    small, large = (allocated(plan, edge_index(pairs, 3), channels, radial) for pairs in ([(0, 1)], [(0, 1), (1, 2)]))
    assert frame == 50
    assert [more - less for less, more in zip(small, large, strict=True)] == [
        frame,
        frame + (blocks + 1) * (radial + 3),
        frame + (blocks + 1) * radial + (2 * blocks + 1) * 3,
    ]


@needs_triton
def test_nothing_of_an_edge_has_channels_in_memory(interpreter):
    interpreter(check_memory, 40, 4)


def check_hook() -> None:
    """The operator that `ops` calls, for tensors that it takes for those of a GPU, by itself and through its name."""
    plan, edges = plan_of(SMALL, 1, SMALL), graph("molecules")
    inputs = random_tensors(shapes_of(plan, edges, 2, 2), 10)
    inputs[3] /= inputs[3].norm(dim=1, keepdim=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops, "_compiled", lambda *_: False)
        patch.setattr(ops, "_on_gpu", lambda *_: True)
        found = ops.edge_convolution(plan, inputs[0].requires_grad_(), *inputs[1:], edges)
    assert found.grad_fn.operator.kind == EdgeConvolution.kind
    registered = torch.ops.cliffordstf.forward(EdgeConvolution.kind, plan.key, [*inputs, *edges], 4)
    close([found, registered], [reference.edge_convolution(plan, *inputs, edges)] * 2, 1e-12)


@needs_triton
def test_operators_and_custom_operators_find_the_kernels(interpreter):
    interpreter(check_hook)


def check_compiles(dtype: torch.dtype) -> None:
    Kernel.launch = compile_only  # type: ignore[method-assign]
    plan, edges = plan_of(SMALL, 1, SMALL), graph("molecules")
    derivatives(case(plan, edges)[0], random_tensors(shapes_of(plan, edges, 37, 3), 11, dtype))


@needs_triton
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernels_compile_for_a_gpu(compiler, dtype):
    compiler(check_compiles, dtype)


@needs_gpu
@needs_triton
@pytest.mark.parametrize("channels", [32, 50])
def test_on_a_gpu(channels, tmp_path, monkeypatch):
    monkeypatch.setenv("CLIFFORDSTF_CACHE", str(tmp_path))
    plan, edges = plan_of(NATURAL, 3, NATURAL), graph("random")
    ours, theirs = case(plan, edges)
    inputs = random_tensors(shapes_of(plan, edges, channels, 16), 12)
    results, again = (derivatives(ours, [tensor.cuda() for tensor in inputs]) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(results, again, strict=True))
    close([result.cpu() for result in results], derivatives(theirs, inputs), 1e-11)
