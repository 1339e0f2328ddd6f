"""The geometry kernel of inference against autograd in PyTorch."""

import pytest
import torch

from cliffordstf.kernels import kernel_name
from cliffordstf.kernels.native.pairs import PreparedPairs

pytestmark = pytest.mark.skipif(kernel_name() != "compiled", reason="the kernels cannot be compiled here")

LAYERS = 2


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 2e-5)])
@pytest.mark.parametrize(("pairs", "functions"), [(1, 1), (37, 5), (64, 16)])
def test_forward_and_backward_equal_autograd(dtype, tolerance, pairs, functions):
    torch.manual_seed(pairs)
    vectors = (2 * torch.randn(pairs, 3, dtype=torch.float64)).to(dtype).requires_grad_(True)
    radial_gradients = [torch.randn(pairs, functions, dtype=dtype) for _ in range(LAYERS)]
    turns = [torch.randn(pairs, 3, dtype=dtype) for _ in range(LAYERS)]
    slopes = torch.randn(LAYERS, pairs, functions, dtype=dtype)
    lengths = vectors.norm(dim=1)
    expected = vectors / lengths[:, None]
    steepness = sum((a * b).sum(dim=1) for a, b in zip(radial_gradients, slopes, strict=True))
    (steepness * lengths + sum((expected * turn).sum(dim=1) for turn in turns)).sum().backward()

    kernel = PreparedPairs(dtype)
    forward, (distances, directions) = kernel.prepare_forward(vectors.detach())
    forward()
    backward, gradients = kernel.prepare_backward(vectors.detach(), slopes, radial_gradients, turns)
    backward()
    torch.testing.assert_close(distances, lengths.detach(), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(directions, expected.detach(), rtol=0, atol=10 * tolerance)
    scale = float(vectors.grad.abs().max())
    torch.testing.assert_close(gradients, vectors.grad, rtol=0, atol=20 * tolerance * max(1.0, scale))


def test_no_pairs():
    kernel = PreparedPairs(torch.float32)
    forward, (distances, directions) = kernel.prepare_forward(torch.zeros(0, 3))
    forward()
    assert distances.shape == (0,)
    assert directions.shape == (0, 3)


def test_a_vector_of_no_length_is_not_hidden():
    kernel = PreparedPairs(torch.float64)
    forward, (_, directions) = kernel.prepare_forward(torch.tensor([[0.0, 0, 0], [1, 0, 0]], dtype=torch.float64))
    forward()
    assert directions[0].isnan().all()
    assert directions[1].isfinite().all()
