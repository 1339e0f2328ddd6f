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
    return PreparedRadial(matrices, biases, radial.layers, radial.cutoff, radial.power)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
@pytest.mark.parametrize(("depth", "width", "functions", "layers"), [(2, 64, 16, 2), (1, 13, 5, 3), (3, 24, 1, 1)])
def test_values_and_slopes_equal_the_network(dtype, tolerance, depth, width, functions, layers):
    torch.manual_seed(0)
    radial = RadialFunctions(8, 5.0, 5, width, depth, functions, layers).to(dtype)
    with torch.no_grad():
        for parameter in radial.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        distances = torch.cat([torch.linspace(0.4, 5.2, 43), torch.tensor([5.0])]).to(dtype)
        values, slopes = radial._values_and_slopes(distances)
        compiled, dual = prepared(radial)(distances), DualRadial(radial).forward(distances)
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


def test_no_pairs():
    values, slopes = prepared(RadialFunctions(8, 5.0, 5, 16, 2, 4, 2))(torch.zeros(0))
    assert values.shape == slopes.shape == (2, 0, 4)
