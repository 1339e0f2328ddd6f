"""Every implementation of every operator: its definition, its derivatives, its equality with plain PyTorch."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import cliffordstf
from cliffordstf.algebra.tracks import BIVECTOR, GRADES, SCALAR, STF2, STF3, STF4, VECTOR, Layout
from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels import (
    AS_IT_IS,
    EdgePlan,
    GatePlan,
    LinearPlan,
    LinearTerm,
    kernel_name,
    ops,
    reference,
    use_plain_pytorch,
)
from cliffordstf.kernels.native.kernel import MultilinearKernel
from cliffordstf.kernels.native.library import chunks_for
from cliffordstf.kernels.plan import AnyPlan
from tests.kernels.graphs import draw, edge_index, edge_plan, molecules, node_plan, random_graph

SMALL = Layout((SCALAR, VECTOR, BIVECTOR, STF2))
LARGE = Layout((*GRADES, STF2, STF3, STF4))

needs_compiler = pytest.mark.skipif(
    kernel_name() != "compiled", reason="no C++ compiler here, so there are no compiled kernels to test"
)
IMPLEMENTATIONS = [pytest.param(reference, id="reference"), pytest.param(ops, id="compiled", marks=needs_compiler)]


@dataclass
class Case:
    """An operator, as a function of its differentiable inputs."""

    run: Callable[..., Tensor]
    inputs: list[Tensor]


def make_edge_case(name: str, module, plan: EdgePlan, edges: EdgeIndex, channels: int, leaf) -> Case:
    features, rows = leaf(len(edges.row_pointers) - 1, plan.source_dims, channels), plan.weight_rows
    count, pairs = len(edges.senders), len(edges.pair_edges)
    if "convolution" in name:
        inputs = [features, leaf(pairs, 3), leaf(3, rows, channels), leaf(pairs, 3)]

        def convolution(h: Tensor, radial: Tensor, mixing: Tensor, vectors: Tensor) -> Tensor:
            return module.edge_convolution(plan, h, radial, mixing, vectors / vectors.norm(dim=1, keepdim=True), edges)

        return Case(convolution, inputs)
    if "factored" in name:
        inputs = [features, leaf(pairs, rows, channels), leaf(count, rows), leaf(count, plan.edge_dims)]
        return Case(lambda *x: module.edge_factored(plan, *x, edges), inputs)
    inputs = [features, leaf(count, rows, channels), leaf(count, plan.edge_dims)]
    return Case(lambda *x: module.edge_trilinear(plan, *x, edges), inputs)


def make_case(name: str, module, channels: int, generator: torch.Generator, dtype=torch.float64) -> Case:
    def leaf(*shape: int) -> Tensor:
        return draw(generator, *shape, dtype=dtype)

    # Whole molecules in every chunk of atoms: no pair leaves its chunk. One structure, or each of several large ones,
    # in several chunks: some pairs do.
    if "large molecules" in name:
        edges = molecules(4, 48)
    elif "molecules" in name:
        edges = molecules(8, 9)
    else:
        edges = random_graph(30, 0.6, generator) if "several chunks" in name else random_graph(6, 0.7, generator)
    if name.startswith("edge"):
        plan = {
            "edge small": edge_plan(SMALL, 2, SMALL, shared=5),
            "edge large": edge_plan(LARGE, 4, LARGE),
            "edge factored": edge_plan(SMALL, 2, LARGE, shared=3),
            "edge convolution": edge_plan(SMALL, 3, LARGE),
            "edge convolution of molecules": edge_plan(SMALL, 3, LARGE),
            "edge convolution of large molecules": edge_plan(SMALL, 1, SMALL),
            "edge convolution in several chunks": edge_plan(SMALL, 2, SMALL),
            "edge small in several chunks": edge_plan(SMALL, 2, SMALL, shared=5),
            "edge convolution of scalars": edge_plan(Layout((SCALAR,)), 3, LARGE, shared=2),
        }[name]
        return make_edge_case(name, module, plan, edges, channels, leaf)
    if name.startswith("node"):
        nodes = node_plan(SMALL, LARGE, LARGE)
        operands = [leaf(6, nodes.left_dims, channels), leaf(6, nodes.right_dims, channels)]
        if name == "node":
            inputs = [*operands, leaf(nodes.weight_rows, channels)]
            return Case(lambda *x: module.node_bilinear(nodes, *x), inputs)
        groups = torch.tensor([0, 1, 1, 0, 2, 1])
        inputs = [*operands, leaf(3, nodes.weight_rows, channels)]
        return Case(lambda *x: module.node_bilinear(nodes, *x, groups), inputs)
    if name == "linear":
        terms = LinearTerm(9, ((0, 0, 1, 0), (4, 4, 5, 1))), LinearTerm(4, ((1, 1, 3, 0), (0, 0, 1, 1)))
        linear = LinearPlan(terms, 10, 0.7)  # no term reaches the last component
        inputs = [leaf(6, 9, channels), leaf(2, channels, 6), leaf(6, 4, 3), leaf(2, 3, 6)]
        return Case(lambda a, b, c, d: module.track_linear(linear, [(a, b), (c, d)]), inputs)
    if name == "linear with tracks as they are":
        terms = (
            LinearTerm(9, ((0, 0, 1, 0), (1, 1, 3, AS_IT_IS), (4, 4, 5, 1))),
            LinearTerm(4, ((1, 1, 3, AS_IT_IS), (0, 0, 1, AS_IT_IS))),
        )
        linear = LinearPlan(terms, 9, 0.7)
        inputs = [leaf(6, 9, channels), leaf(2, channels, channels), leaf(6, 4, channels)]
        none = inputs[1].detach()[:0]
        return Case(lambda a, b, c: module.track_linear(linear, [(a, b), (c, none)]), inputs)
    gate = GatePlan(((1, 3), (4, 5)), 1.7, 1.8)
    inputs = [leaf(6, 9, channels), leaf(6, 2, channels), leaf(2, channels)]
    return Case(lambda *x: module.scalar_gate(gate, *x), inputs)


NAMES = [
    "edge small",
    "edge large",
    "edge factored",
    "edge convolution",
    "edge convolution of scalars",
    "edge convolution of molecules",
    "edge convolution in several chunks",
    "edge small in several chunks",
    "node",
    "node with groups",
    "linear",
    "linear with tracks as they are",
    "gate",
]
LARGE_TOO = [*NAMES, "edge convolution of large molecules"]


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name, module, generator):
    case = make_case(name, module, 2, generator)
    assert torch.autograd.gradcheck(case.run, case.inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(case.run, case.inputs, fast_mode=True)


def derivatives(case: Case) -> list[Tensor]:
    """Output, first and second derivatives along random directions."""
    torch.manual_seed(1)
    output = case.run(*case.inputs)
    gradient = torch.randn_like(output).requires_grad_()
    first = torch.autograd.grad(output, case.inputs, gradient, create_graph=True)
    total = sum((part * torch.randn_like(part)).sum() for part in first)
    second = torch.autograd.grad(total, [gradient, *case.inputs], allow_unused=True, materialize_grads=True)
    return [output, *first, *second]


@needs_compiler
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 2e-5)])
@pytest.mark.parametrize("channels", [1, 5, 8, 24])
@pytest.mark.parametrize("name", LARGE_TOO)
def test_compiled_equals_reference_to_rounding(name, channels, dtype, tolerance, generator):
    state = generator.get_state()
    compiled = derivatives(make_case(name, ops, channels, generator, dtype))
    generator.set_state(state)
    plain = derivatives(make_case(name, reference, channels, generator, dtype))
    for ours, theirs in zip(compiled, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance * max(1.0, float(theirs.detach().abs().max())))


def test_a_structure_of_several_chunks_has_pairs_of_both_kinds(generator):
    edges = random_graph(30, 0.6, generator)
    parts = chunks_for(len(edges.senders), 128)
    assert parts >= 3
    straight = edges.pair_edges[:, 0]
    senders, receivers = edges.senders[straight], edges.receivers[straight]
    # Parts begin at the receivers of pairs that are evenly apart.
    begins = receivers[torch.arange(1, parts) * len(straight) // parts].contiguous()
    same = torch.bucketize(senders, begins, right=True) == torch.bucketize(receivers, begins, right=True)
    assert same.any()
    assert not same.all()


@needs_compiler
def test_atoms_in_any_order_are_dealt_out(generator):
    """Every chunk has neighbours nearly everywhere, so that there are fewer chunks than usual."""
    atoms, neighbours = 6000, 60
    ends = torch.randint(atoms, (atoms * neighbours // 2, 2), generator=generator)
    edges = edge_index(sorted({(min(i, j), max(i, j)) for i, j in ends.tolist() if i != j}), atoms)
    plan = edge_plan(Layout((SCALAR,)), 1, Layout((SCALAR, VECTOR)))
    pairs = len(edges.pair_edges)
    inputs = [draw(generator, atoms, 1, 8), draw(generator, pairs, 2), draw(generator, 2, plan.weight_rows, 8)]
    directions = torch.nn.functional.normalize(draw(generator, pairs, 3).detach())
    found, expected = (module.edge_convolution(plan, *inputs, directions, edges) for module in (ops, reference))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)
    cotangent = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
    for ours, theirs in zip(*(torch.autograd.grad(y, inputs, cotangent) for y in (found, expected)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10 * float(theirs.abs().max()))


@needs_compiler
@pytest.mark.parametrize("name", LARGE_TOO)
def test_results_do_not_depend_on_the_number_of_threads(name, generator, monkeypatch):
    monkeypatch.setattr("cliffordstf.kernels.native.library.threads_for", lambda work: 1)
    results = []
    for threads in (1, 2, 3):
        for module in ("edge", "convolution", "node", "linear", "gate"):
            monkeypatch.setattr(f"cliffordstf.kernels.native.{module}.threads_for", lambda work, n=threads: n)
        generator.manual_seed(3)
        results.append(derivatives(make_case(name, ops, 8, generator, torch.float32)))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@needs_compiler
@pytest.mark.parametrize("name", ["edge convolution", "node"])
def test_gradients_that_the_pass_does_not_use_are_not_computed(name, generator, monkeypatch):
    """Forces need no gradient of the weights, although these require one."""
    case = make_case(name, ops, 3, generator)
    wanted = []
    backward = MultilinearKernel.backward

    def listen(self, gradient, inputs, context, what):
        wanted.append(list(what))
        return backward(self, gradient, inputs, context, what)

    monkeypatch.setattr(MultilinearKernel, "backward", listen)
    # One node between each input and the operator: a pass can tell that it does not lead on.
    result = case.run(*(1 * tensor for tensor in case.inputs)).sum()
    for index, tensor in enumerate(case.inputs):
        (found,) = torch.autograd.grad(result, tensor, retain_graph=True)
        assert found.shape == tensor.shape
        assert wanted.pop() == [other == index for other in range(len(case.inputs))]
    result.backward()
    assert wanted == [[True] * len(case.inputs)]


@needs_compiler
@pytest.mark.parametrize("name", NAMES)
def test_operands_and_gradients_may_lie_anywhere(name, generator):
    """Strided inputs, an expanded gradient: second derivatives see through the copies that the kernels need."""
    case = make_case(name, ops, 4, generator)

    def strided(*inputs: Tensor) -> Tensor:
        spread = [torch.stack([x, 2 * x], dim=-1)[..., 0] for x in inputs]
        return case.run(*spread).sum(dim=1)

    assert torch.autograd.gradcheck(strided, case.inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(strided, case.inputs, fast_mode=True)


@needs_compiler
def test_third_derivatives_are_refused(generator):
    case = make_case("node", ops, 2, generator)
    x = case.inputs[0]
    (first,) = torch.autograd.grad(case.run(*case.inputs).square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="engine='reference'"):
        torch.autograd.grad(second.square().sum(), x)


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
def test_edge_operator_equals_its_definition(module, generator):
    plan, edges = edge_plan(SMALL, 2, SMALL, shared=5), random_graph(5, 0.8, generator)
    h, y = draw(generator, 5, plan.source_dims, 2), draw(generator, len(edges.senders), plan.edge_dims)
    w = draw(generator, len(edges.senders), plan.weight_rows, 2)
    expected = torch.zeros(5, plan.target_dims, 2, dtype=torch.float64)
    for edge, (j, i) in enumerate(zip(edges.senders, edges.receivers, strict=True)):
        for p in plan.paths:
            for a, b, c, value in p.coupling.terms:
                term = p.scale * float(value) * h[j, p.source + a] * w[edge, p.weight] * y[edge, p.edge + b]
                expected[i, p.target + c] += term.detach()
    torch.testing.assert_close(module.edge_trilinear(plan, h, w, y, edges), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
def test_node_product_equals_its_definition(module, generator):
    plan = node_plan(SMALL, SMALL, LARGE)
    x, y = draw(generator, 4, plan.left_dims, 2), draw(generator, 4, plan.right_dims, 2)
    w = draw(generator, plan.weight_rows, 2)
    expected = torch.zeros(4, plan.target_dims, 2, dtype=torch.float64)
    for p in plan.paths:
        for a, b, c, value in p.coupling.terms:
            term = p.scale * float(value) * x[:, p.left + a] * y[:, p.right + b] * w[p.weight]
            expected[:, p.target + c] += term.detach()
    torch.testing.assert_close(module.node_bilinear(plan, x, y, w), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
def test_no_edges_give_zeros(module, generator):
    plan, edges = edge_plan(SMALL, 2, SMALL), random_graph(3, 0.0, generator)
    h, y = draw(generator, 3, plan.source_dims, 2), draw(generator, 0, plan.edge_dims)
    result = module.edge_trilinear(plan, h, draw(generator, 0, plan.weight_rows, 2), y, edges)
    assert result.shape == (3, plan.target_dims, 2)
    assert not result.any()
    inputs = [h, draw(generator, 0, 4), draw(generator, 4, plan.weight_rows, 2)]
    convolved = module.edge_convolution(plan, *inputs, draw(generator, 0, 3).detach(), edges)
    assert convolved.shape == (3, plan.target_dims, 2)
    assert not convolved.any()
    gradients = torch.autograd.grad(convolved.sum(), inputs, allow_unused=True, materialize_grads=True)
    assert not any(gradient.any() for gradient in gradients)


def test_tables_made_in_inference_mode_can_be_differentiated(generator):
    case = make_case("edge small", reference, 2, generator)
    with torch.inference_mode():
        case.run(*case.inputs)
    case.run(*case.inputs).sum().backward()
    assert case.inputs[0].grad is not None


def test_plans_are_found_again_by_their_key():
    plan, nodes = edge_plan(LARGE, 3, LARGE), node_plan(SMALL, SMALL, SMALL)
    assert type(plan).from_key(plan.key).paths == plan.paths
    assert type(nodes).from_key(nodes.key).paths == nodes.paths


def test_plain_pytorch_is_a_property_of_a_model_s_plans():
    potential = cliffordstf.build("default", elements=[1], channels=4)
    kept = potential.model.layers[0].convolution.plan
    use_plain_pytorch(potential.model)
    plans = [value for part in potential.model.modules() for value in vars(part).values() if isinstance(value, AnyPlan)]
    assert len(plans) > 10
    assert all(plan.plain for plan in plans)
    assert not kept.plain
