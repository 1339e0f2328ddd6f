import torch

from cliffordstf.nn.pairs import to_edges
from tests.kernels.graphs import edge_index

EDGES = edge_index([(0, 1), (0, 2), (1, 3)], 4)


def test_both_edges_of_a_pair_get_its_values():
    values = torch.arange(6.0).reshape(3, 2)
    edges = to_edges(values, EDGES)
    for pair, (straight, turned) in enumerate(EDGES.pair_edges.tolist()):
        torch.testing.assert_close(edges[[straight, turned]], values[[pair, pair]])


def test_first_and_second_derivatives():
    values = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

    def function(x: torch.Tensor) -> torch.Tensor:
        return to_edges(x.square(), EDGES).sin()

    assert torch.autograd.gradcheck(function, values)
    assert torch.autograd.gradgradcheck(function, values)
