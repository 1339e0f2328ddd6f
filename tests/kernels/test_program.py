"""Operators recorded as one node of the graph: the same numbers and derivatives as one node each."""

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from cliffordstf.algebra.tracks import SCALAR, STF2, VECTOR, Layout
from cliffordstf.kernels import (
    GatePlan,
    LinearPlan,
    LinearTerm,
    differentiate,
    edge_convolution,
    kernel_name,
    node_bilinear,
    one_node,
    plain_pytorch,
    scalar_gate,
    take,
    track_linear,
)
from tests.kernels.graphs import draw, edge_plan, node_plan, random_graph

pytestmark = pytest.mark.skipif(kernel_name() != "compiled", reason="the kernels cannot be compiled here")

LAYOUT = Layout((SCALAR, VECTOR, STF2))
ATOMS = 5
TRACKS = tuple((LAYOUT.slice(t).start, LAYOUT.slice(t).start, t.dims, i) for i, t in enumerate(LAYOUT))
ALL = LinearPlan((LinearTerm(LAYOUT.dims, TRACKS), LinearTerm(LAYOUT.dims, TRACKS[:1])), LAYOUT.dims, 0.7)
SCALARS_ONLY = LinearPlan((LinearTerm(LAYOUT.dims, ((0, 0, 1, 0), (0, 1, 1, 1))),), 2)
GATE = GatePlan(((1, 3), (4, 5)), 1.2, 1.3)


class Network:
    """Every operator, with features that several of them read, one as both operands of a product."""

    def __init__(self, channels: int) -> None:
        generator = torch.Generator().manual_seed(3)

        def leaf(*shape: int) -> Tensor:
            # Small: products of products must not drive the gates to where they are flat.
            return draw(generator, *shape).detach().mul_(0.4).requires_grad_()

        self.edges = random_graph(ATOMS, 0.8, generator)
        self.convolution = edge_plan(LAYOUT, 2, LAYOUT)
        self.product = node_plan(LAYOUT, LAYOUT, LAYOUT)
        pairs, rows = len(self.edges.pair_edges), self.product.weight_rows
        self.geometry = [leaf(pairs, 3), leaf(pairs, 3)]
        self.parameters = [
            leaf(ATOMS, LAYOUT.dims, channels),
            leaf(3, self.convolution.weight_rows, channels),
            leaf(1, rows, channels),
            leaf(1, rows, channels),
            leaf(3, channels, channels),
            leaf(1, channels, channels),
            leaf(2, channels, channels),
            leaf(2, channels),
        ]

    def recorded(self, *inputs: Tensor) -> list[Tensor]:
        radial, vectors, *parameters = inputs
        directions = vectors / vectors.norm(dim=1, keepdim=True)
        return one_node(lambda: self.run(radial, directions, *parameters), [radial], LAYOUT.lmax)

    def plain(self, *inputs: Tensor) -> list[Tensor]:
        radial, vectors, *parameters = inputs
        with plain_pytorch():
            return self.run(radial, vectors / vectors.norm(dim=1, keepdim=True), *parameters)

    def run(self, radial: Tensor, directions: Tensor, *parameters: Tensor) -> list[Tensor]:
        """Scalars of a middle layer, and the last feature, which is read inside too."""
        features, mixing, first, second, matrices, skip, logits, bias = parameters
        summed = edge_convolution(self.convolution, features, radial, mixing, directions, self.edges)
        square = node_bilinear(self.product, summed, summed, first)
        cube = node_bilinear(self.product, summed, square, second)
        mixed = track_linear(ALL, [(cube, matrices), (features, skip)])
        gated = scalar_gate(GATE, mixed, track_linear(SCALARS_ONLY, [(mixed, logits)]), bias)
        last = track_linear(ALL, [(gated, matrices), (summed, skip)])
        return [take(last, 0, 1), last]


def energy(outputs: list[Tensor]) -> Tensor:
    scalars, features = outputs
    return (scalars.sin().sum() + 0.1 * features.square().sum()) * 0.1


def derivatives(run, network: Network) -> list[Tensor]:
    """Values, forces, and what a loss on both tells the parameters."""
    outputs = run(*network.geometry, *network.parameters)
    with differentiate("geometry"):
        forces = torch.autograd.grad(energy(outputs), network.geometry, create_graph=True)
    loss = energy(outputs) + sum(force.square().sum() for force in forces)
    with differentiate("parameter"):
        gradients = torch.autograd.grad(loss, network.parameters)
    return [tensor.detach() for tensor in (*outputs, *forces, *gradients)]


@pytest.mark.parametrize("channels", [8, 5])
def test_one_node_equals_plain_pytorch(channels):
    network = Network(channels)
    found, expected = derivatives(network.recorded, network), derivatives(network.plain, network)
    assert len(found) == 12
    for one, other in zip(found, expected, strict=True):
        assert other.abs().max() > 0
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11 * float(other.abs().max()))


def test_derivatives_by_differences():
    network = Network(1)
    inputs = (*network.geometry, *network.parameters)
    torch.autograd.gradcheck(lambda *x: tuple(network.recorded(*x)), inputs, atol=1e-5, rtol=1e-4)
    torch.autograd.gradgradcheck(lambda *x: tuple(network.recorded(*x)), inputs, atol=1e-4, rtol=1e-3)


def test_there_is_one_node():
    network = Network(8)
    radial, vectors = network.geometry
    directions = torch.nn.functional.normalize(vectors.detach(), dim=1).requires_grad_()
    leaves = (radial, directions, *network.parameters)
    scalars, features = one_node(lambda: network.run(*leaves), [radial], LAYOUT.lmax)
    assert scalars.grad_fn is features.grad_fn
    assert {node for node, _ in scalars.grad_fn.next_functions if node is not None} == {
        torch.autograd.graph.get_gradient_edge(leaf).node for leaf in leaves
    }


def test_gradients_can_be_taken_again():
    network = Network(8)
    outputs = network.recorded(*network.geometry, *network.parameters)
    forces = torch.autograd.grad(energy(outputs), network.geometry, create_graph=True)
    loss = energy(outputs) + sum(force.square().sum() for force in forces)
    first = torch.autograd.grad(loss, network.parameters, retain_graph=True)
    again = torch.autograd.grad(loss, network.parameters)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_gradients_from_outside_are_left_alone():
    network = Network(8)
    outputs = network.recorded(*network.geometry, *network.parameters)
    given = [torch.ones_like(output) for output in outputs]
    torch.autograd.backward(outputs, given)
    assert all(torch.equal(gradient, torch.ones_like(gradient)) for gradient in given)


def test_nothing_is_kept_alive_by_itself():
    network = Network(8)
    outputs = network.recorded(*network.geometry, *network.parameters)
    reference = StorageWeakRef(outputs[1].untyped_storage())
    del outputs
    assert reference.expired()


def test_a_third_derivative_is_refused():
    network = Network(8)
    outputs = network.recorded(*network.geometry, *network.parameters)
    forces = torch.autograd.grad(energy(outputs), network.geometry, create_graph=True)
    (second,) = torch.autograd.grad(forces[0].square().sum(), network.parameters[:1], create_graph=True)
    with pytest.raises(NotImplementedError, match="two derivatives"):
        second.sum().backward()


def test_without_autograd_nothing_is_recorded():
    network = Network(8)
    with torch.no_grad():
        found = network.recorded(*network.geometry, *network.parameters)
    expected = network.recorded(*network.geometry, *network.parameters)
    assert not any(tensor.requires_grad for tensor in found)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other.detach(), rtol=1e-12, atol=1e-12)


def test_inputs_need_not_be_contiguous():
    network = Network(8)
    features, *rest = network.parameters
    turned = features.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    found = energy(network.recorded(*network.geometry, turned, *rest))
    expected = energy(network.recorded(*network.geometry, *network.parameters))
    (gradient,) = torch.autograd.grad(found, turned)
    (wanted,) = torch.autograd.grad(expected, features)
    torch.testing.assert_close(gradient, wanted, rtol=0, atol=0)
