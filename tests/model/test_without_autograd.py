"""Where nobody differentiates, the paper's models take shorter ways; the numbers must be the same."""

import pytest
import torch

import cliffordstf
from cliffordstf.nn.attention import EdgeAttention
from cliffordstf.verify.structures import random_cluster

ELEMENTS = (1, 6, 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["paper/full", "paper/clifford", "paper/output-only"])
def test_energies_and_forces_are_those_of_training(name, dtype):
    potential = cliffordstf.build(name, elements=ELEMENTS, seed=0).to(dtype)
    batch = potential.batch([random_cluster(ELEMENTS, atoms=9, seed=seed) for seed in range(3)])
    plain, graph = potential(batch), potential(batch, train=True)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(plain.energy, graph.energy.detach(), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(plain.forces, graph.forces.detach(), rtol=tolerance, atol=tolerance)


def test_attention_of_edges_adds_up_to_one(monkeypatch):
    potential = cliffordstf.build("paper/full", elements=ELEMENTS, seed=0).double()
    batch = potential.batch([random_cluster(ELEMENTS, atoms=7, seed=0)])
    found = []
    forward = EdgeAttention.forward

    def listen(self, *arguments):
        found.append(forward(self, *arguments))
        return found[-1]

    monkeypatch.setattr(EdgeAttention, "forward", listen)
    potential(batch)
    potential(batch, train=True)
    half = len(found) // 2
    assert half == 5
    for plain, graph in zip(found[:half], found[half:], strict=True):
        torch.testing.assert_close(plain, graph.detach(), rtol=1e-10, atol=1e-12)
        sums = torch.zeros(len(batch.numbers), dtype=plain.dtype).index_add(0, batch.receivers, plain)
        torch.testing.assert_close(sums, torch.ones_like(sums))
