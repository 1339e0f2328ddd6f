import pytest
import torch

from cliffordstf.algebra.couplings import admissible_couplings
from cliffordstf.algebra.tracks import BIVECTOR, SCALAR, STF2, STF3, VECTOR, Layout
from cliffordstf.kernels import EdgePath, EdgePlan, NodePath, NodePlan, edge_trilinear, node_bilinear

SOURCE = Layout((SCALAR, VECTOR, BIVECTOR, STF2))
EDGE = Layout((SCALAR, VECTOR, STF2))
ATOMS, EDGES, CHANNELS = 4, 7, 2


@pytest.fixture
def edge_plan() -> EdgePlan:
    couplings = admissible_couplings(SOURCE.tracks, EDGE.tracks, SOURCE.tracks)
    paths = tuple(
        EdgePath(c, SOURCE.slice(c.a).start, EDGE.slice(c.b).start, SOURCE.slice(c.c).start, row % 5, 0.5 + row)
        for row, c in enumerate(couplings)
    )
    return EdgePlan(paths, SOURCE.dims, EDGE.dims, SOURCE.dims, 5)


@pytest.fixture
def node_plan() -> NodePlan:
    out = Layout((SCALAR, VECTOR, STF3))
    couplings = admissible_couplings(SOURCE.tracks, EDGE.tracks, out.tracks)
    paths = tuple(
        NodePath(c, SOURCE.slice(c.a).start, EDGE.slice(c.b).start, out.slice(c.c).start, row, 1.5 - row)
        for row, c in enumerate(couplings)
    )
    return NodePlan(paths, SOURCE.dims, EDGE.dims, out.dims, len(paths))


def edge_inputs(plan: EdgePlan, generator: torch.Generator) -> list[torch.Tensor]:
    shapes = [(ATOMS, plan.source_dims, CHANNELS), (EDGES, plan.weight_rows, CHANNELS), (EDGES, plan.edge_dims)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


SENDERS = torch.tensor([1, 2, 0, 3, 0, 1, 2])
RECEIVERS = torch.tensor([0, 0, 1, 1, 1, 3, 3])  # atom 2 receives nothing


def test_edge_operator_equals_its_definition(edge_plan, generator):
    h, w, y = edge_inputs(edge_plan, generator)
    expected = torch.zeros(ATOMS, edge_plan.target_dims, CHANNELS, dtype=torch.float64)
    for edge, (j, i) in enumerate(zip(SENDERS, RECEIVERS, strict=True)):
        for path in edge_plan.paths:
            for a, b, c, value in path.coupling.terms:
                term = path.scale * float(value) * h[j, path.source + a] * w[edge, path.weight] * y[edge, path.edge + b]
                expected[i, path.target + c] += term
    result = edge_trilinear(edge_plan, h, w, y, SENDERS, RECEIVERS)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


def test_node_product_equals_its_definition(node_plan, generator):
    x = torch.randn(ATOMS, node_plan.left_dims, CHANNELS, generator=generator, dtype=torch.float64)
    y = torch.randn(ATOMS, node_plan.right_dims, CHANNELS, generator=generator, dtype=torch.float64)
    w = torch.randn(node_plan.weight_rows, CHANNELS, generator=generator, dtype=torch.float64)
    expected = torch.zeros(ATOMS, node_plan.target_dims, CHANNELS, dtype=torch.float64)
    for path in node_plan.paths:
        for a, b, c, value in path.coupling.terms:
            term = path.scale * float(value) * x[:, path.left + a] * y[:, path.right + b]
            expected[:, path.target + c] += term * w[path.weight]
    torch.testing.assert_close(node_bilinear(node_plan, x, y, w), expected, rtol=0, atol=1e-12)


def test_edge_operator_derivatives(edge_plan, generator):
    inputs = [x.requires_grad_() for x in edge_inputs(edge_plan, generator)]

    def operator(h, w, y):
        return edge_trilinear(edge_plan, h, w, y, SENDERS, RECEIVERS)

    assert torch.autograd.gradcheck(operator, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(operator, inputs, fast_mode=True)


def test_node_product_derivatives(node_plan, generator):
    shapes = [(ATOMS, node_plan.left_dims, 2), (ATOMS, node_plan.right_dims, 2), (node_plan.weight_rows, 2)]
    inputs = [torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes]
    assert torch.autograd.gradcheck(lambda *x: node_bilinear(node_plan, *x), inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda *x: node_bilinear(node_plan, *x), inputs, fast_mode=True)


def test_no_edges_give_zeros(edge_plan, generator):
    h, w, y = edge_inputs(edge_plan, generator)
    none = torch.zeros(0, dtype=torch.int64)
    result = edge_trilinear(edge_plan, h, w[:0], y[:0], none, none)
    assert result.shape == (ATOMS, edge_plan.target_dims, CHANNELS)
    assert not result.any()


def test_tables_made_in_inference_mode_can_be_differentiated(edge_plan, generator):
    h, w, y = edge_inputs(edge_plan, generator)
    with torch.inference_mode():
        edge_trilinear(edge_plan, h, w, y, SENDERS, RECEIVERS)
    edge_trilinear(edge_plan, h.requires_grad_(), w, y, SENDERS, RECEIVERS).sum().backward()
    assert h.grad is not None
