"""The radial functions of inference and of training against the network in PyTorch."""

import pytest
import torch
from torch import nn

from cliffordstf.kernels import kernel_name
from cliffordstf.kernels.native.radial import PreparedRadial
from cliffordstf.nn.radial import DualRadial, RadialFunctions

pytestmark = pytest.mark.skipif(kernel_name() != "compiled", reason="the kernels cannot be compiled here")


def prepared(radial: RadialFunctions) -> PreparedRadial:
    linears = [layer for layer in radial.network if isinstance(layer, nn.Linear)]
    matrices, biases = [layer.weight.mT for layer in linears], [layer.bias for layer in linears]
    return PreparedRadial(
        matrices, biases, radial.shifts, radial.layers, radial.cutoff, radial.power, radial.basis.warp
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
@pytest.mark.parametrize(("depth", "width", "functions", "layers"), [(2, 64, 16, 2), (1, 13, 5, 3), (3, 24, 1, 1)])
@pytest.mark.parametrize("elements", [0, 1, 3])
@pytest.mark.parametrize("warp", [None, 2.5])
def test_values_and_slopes_equal_the_network(dtype, tolerance, depth, width, functions, layers, elements, warp):
    torch.manual_seed(0)
    radial = RadialFunctions(8, 5.0, 5, width, depth, functions, layers, elements, warp).to(dtype)
    with torch.no_grad():
        for parameter in radial.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        distances = torch.cat([torch.linspace(0.4, 5.2, 43), torch.tensor([5.0])]).to(dtype)
        ends = torch.randint(elements, (len(distances), 2)) if elements else None
        values, slopes = radial._values_and_slopes(distances, ends)
        compiled, dual = prepared(radial)(distances, ends), DualRadial(radial).forward(distances, ends)
    for results in (compiled, dual):
        for expected, found in zip((values, slopes[:, :, 0]), results, strict=True):
            parts = torch.stack(expected.chunk(layers, dim=1))
            torch.testing.assert_close(found, parts, rtol=tolerance, atol=tolerance * float(parts.abs().max()))


def test_large_and_not_a_number_go_through():
    """The exponential saturates instead of overflowing, and NaN stays NaN."""
    radial = RadialFunctions(2, 5.0, 5, 8, 1, 8, 1)
    with torch.no_grad():
        radial.network[0].weight.mul_(1e4)
        values, _ = prepared(radial)(torch.tensor([1.0, float("nan"), 2.0]))
    assert torch.isfinite(values[0, [0, 2]]).all()
    assert values[0, 1].isnan().all()


@pytest.mark.parametrize("elements", [0, 3])
def test_no_pairs(elements):
    radial = RadialFunctions(8, 5.0, 5, 16, 2, 4, 2, elements)
    distances, ends = torch.zeros(0), torch.zeros(0, 2, dtype=torch.int64)
    values, slopes = prepared(radial)(distances, ends)
    assert values.shape == slopes.shape == (2, 0, 4)
    assert [functions.shape for functions in radial(distances, ends)] == [(0, 4), (0, 4)]


def test_gradients_of_all_weights_equal_those_of_autograd():
    torch.manual_seed(0)
    radial = RadialFunctions(6, 5.0, 5, 12, 2, 4, 2, elements=3, warp=3.0).double()
    distances = torch.linspace(0.6, 4.8, 11, dtype=torch.float64)
    ends = torch.randint(3, (11, 2))
    of_values, of_slopes = torch.randn(2, 11, 8, dtype=torch.float64)
    dual = DualRadial(radial)
    with torch.no_grad():
        dual.forward(distances, ends)
        found = dual.backward(of_values, of_slopes)
    values, slopes = radial._values_and_slopes(distances, ends)
    total = (values * of_values).sum() + (slopes[:, :, 0] * of_slopes).sum()
    assert {id(weight) for weight in dual.parameters} == {id(weight) for weight in radial.parameters()}
    for gradient, expected in zip(found, torch.autograd.grad(total, dual.parameters), strict=True):
        assert expected.any()
        torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-12)


def test_a_pair_does_not_know_which_of_its_atoms_comes_first():
    radial = RadialFunctions(6, 5.0, 5, 12, 2, 4, 2, elements=3).double()
    distances = torch.tensor([1.1, 1.1, 1.1], dtype=torch.float64)
    (one, other, third), _ = radial(distances, torch.tensor([[0, 2], [2, 0], [1, 2]]))
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert (one - third).abs().max() > 1e-3


def test_a_table_of_elements_may_lie_anywhere():
    torch.manual_seed(0)
    radial = RadialFunctions(6, 5.0, 5, 16, 1, 4, 1, elements=3)
    distances, ends = torch.linspace(1, 4, 5), torch.randint(3, (5, 2))
    with torch.no_grad():
        expected = prepared(radial)(distances, ends)[0]
        radial.shifts = nn.Parameter(radial.shifts.mT.contiguous().mT)
        assert not radial.shifts.is_contiguous()
        torch.testing.assert_close(prepared(radial)(distances, ends)[0], expected, rtol=0, atol=0)
