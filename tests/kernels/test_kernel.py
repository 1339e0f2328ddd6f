"""Results of kernels whose channels do not fill whole vectors."""

import pytest
import torch

from cliffordstf.algebra.tracks import SCALAR, STF2, VECTOR, Layout
from cliffordstf.kernels import kernel_name, node_bilinear
from cliffordstf.kernels.native.kernel import padded, padded_channels, uncut
from tests.kernels.graphs import draw, node_plan

pytestmark = pytest.mark.skipif(kernel_name() != "compiled", reason="the kernels cannot be compiled here")

CHANNELS = 5


def test_a_result_is_found_whole_again_without_a_copy():
    width = padded_channels(CHANNELS, torch.float64)
    whole = torch.randn(4, 3, width, dtype=torch.float64)
    found = uncut(whole[..., :CHANNELS])
    assert found is not None
    assert found.data_ptr() == whole.data_ptr()
    assert torch.equal(found, whole)


@pytest.mark.parametrize(
    "part",
    [
        lambda whole: whole[..., :CHANNELS].contiguous(),
        lambda whole: whole[:, 1:, :CHANNELS],
        lambda whole: whole[:2, ..., 1 : CHANNELS + 1],  # not the front: what lies behind belongs to others
        lambda whole: whole[..., :CHANNELS].transpose(0, 1),
        lambda whole: whole[..., :CHANNELS] * 2,
    ],
)
def test_other_tensors_are_not_taken_for_results(part):
    whole = torch.randn(4, 3, padded_channels(CHANNELS, torch.float64), dtype=torch.float64)
    assert uncut(part(whole)) is None


def test_padding_is_zero():
    width = padded_channels(CHANNELS, torch.float32)
    tensor = torch.randn(2, CHANNELS)
    found = padded(tensor, width)
    assert torch.equal(found[:, :CHANNELS], tensor)
    assert not found[:, CHANNELS:].any()


def test_products_of_products_without_autograd_equal_those_with_it():
    generator = torch.Generator().manual_seed(0)
    layout = Layout((SCALAR, VECTOR, STF2))
    plan = node_plan(layout, layout, layout)
    left, right = (draw(generator, 6, layout.dims, CHANNELS) for _ in range(2))
    weights = draw(generator, plan.weight_rows, CHANNELS)
    assert plan.target_dims == layout.dims

    def twice() -> torch.Tensor:
        first = node_bilinear(plan, left, right, weights)
        return node_bilinear(plan, first, node_bilinear(plan, right, first, weights), weights)

    expected = twice()
    with torch.no_grad():
        found = twice()
        assert uncut(found) is not None
    torch.testing.assert_close(found, expected.detach(), rtol=0, atol=1e-12 * float(expected.detach().abs().max()))
