import torch

from cliffordstf.nn.attention import EdgeAttention, softmax_over_neighbours
from cliffordstf.nn.geometry import Geometry
from tests.kernels.graphs import edge_index


def make_geometry() -> Geometry:
    return Geometry.from_vectors(torch.randn(4, 3), edge_index([(0, 1), (0, 2)], 4), 4)


def test_softmax_sums_to_one_per_receiver_and_survives_large_logits():
    geometry = make_geometry()
    logits = torch.tensor([[1000.0, -3.0], [999.0, -1e4], [5.0, 0.0], [-1e4, 2.0]])
    weights = softmax_over_neighbours(logits, geometry)
    sums = geometry.sum_over_edges(weights)
    torch.testing.assert_close(sums, torch.tensor([[1.0, 1], [1, 1], [1, 1], [0, 0]]))
    torch.testing.assert_close(weights[:2], logits[:2].softmax(dim=0))


def test_attention_is_one_invariant_weight_per_edge():
    torch.manual_seed(0)
    geometry = make_geometry()
    attention = EdgeAttention(8, heads=4, basis=5)
    weights = attention(torch.randn(4, 8), torch.rand(2, 5), geometry)
    assert weights.shape == (4,)
    torch.testing.assert_close(geometry.sum_over_edges(weights), torch.tensor([1.0, 1, 1, 0]))
