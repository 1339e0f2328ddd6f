"""Networks on values and tangents, against autograd."""

import pytest
import torch

from cliffordstf.nn.dual import DualNetwork, is_plain, value_and_gradient
from cliffordstf.nn.linear import mlp


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("widths", [(4, 3), (4, 6, 3), (4, 6, 5, 3)])
def test_values_tangents_and_gradients_equal_autograd(widths):
    torch.manual_seed(0)
    network = mlp(*widths).double()
    values, tangents = draw(5, 4).requires_grad_(), draw(5, 4, seed=1)
    of_values, of_tangents = draw(5, 3, seed=2), draw(5, 3, seed=3)
    expected, turned = torch.autograd.functional.jvp(network, values, tangents, create_graph=True)
    loss = (of_values * expected).sum() + (of_tangents * turned).sum()
    of_input, *of_weights = torch.autograd.grad(loss, [values, *network.parameters()])
    dual = DualNetwork(network)
    with torch.no_grad():
        found = dual.forward(values, tangents)
        gradient, gradients = dual.backward(of_values, of_tangents)
    torch.testing.assert_close(found, (expected.detach(), turned.detach()))
    torch.testing.assert_close(gradient, of_input)
    assert [id(weight) for weight in dual.parameters] == [id(weight) for weight in network.parameters()]
    for ours, theirs in zip(gradients, of_weights, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("widths", [(4, 1), (4, 6, 1), (4, 6, 5, 1)])
def test_value_and_gradient_equal_autograd(widths):
    torch.manual_seed(0)
    network = mlp(*widths).double()
    inputs = draw(5, 4).requires_grad_()
    expected = network(inputs)[:, 0]
    (slopes,) = torch.autograd.grad(expected.sum(), inputs)
    with torch.no_grad():
        values, gradient = value_and_gradient(network, inputs)
    torch.testing.assert_close(values, expected.detach())
    torch.testing.assert_close(gradient.expand_as(slopes), slopes)


def test_a_network_is_plain_until_a_layer_is_put_in_place_of_another():
    network = mlp(4, 6, 1)
    assert is_plain(network)
    for index, layer in ((1, torch.nn.Tanh()), (0, torch.nn.Linear(4, 6, bias=False))):
        changed = mlp(4, 6, 1)
        changed[index] = layer
        assert not is_plain(changed)
    torch.nn.utils.parametrizations.weight_norm(network[0])
    assert not is_plain(network)
