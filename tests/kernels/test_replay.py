"""Work that is written down and done later."""

import pytest
import torch
from cliffordstf.kernels.replay import Replay, add, do, written_to, zeros

from cliffordstf.graph import EdgeCounts
from cliffordstf.kernels import kernel_name
from cliffordstf.kernels.native.gate import ScalarGate
from cliffordstf.kernels.plan import GatePlan


def test_what_is_written_down_happens_when_it_is_run_each_time_anew():
    total, part, replay = torch.zeros(2), torch.ones(2), Replay()
    with written_to(replay):
        cleared = zeros(total, 2)
        add(cleared, part)
        do(lambda: total.add_(cleared))
    assert total.tolist() == [0, 0]
    replay.run()
    replay.run()
    assert total.tolist() == [2, 2]
    part.fill_(3)
    replay.run()
    assert total.tolist() == [5, 5]


def test_outside_of_a_block_everything_happens_at_once():
    total = torch.zeros(2)
    with written_to(Replay()):
        pass
    add(total, torch.ones(2))
    assert total.tolist() == [1, 1]


@pytest.mark.skipif(kernel_name() != "compiled", reason="the kernels cannot be compiled here")
def test_a_kernel_that_is_resized_leaves_the_other_rows_alone():
    gate = ScalarGate.from_key(GatePlan(((1, 3),), 1.0, 1.0).key)
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(shape, generator=generator) for shape in ((6, 4, 8), (6, 1, 8), (1, 8))]
    expected, replay = gate.forward(inputs, []), Replay()
    with written_to(replay):
        found = gate.forward(inputs, [])
    found.fill_(7)
    for atoms in (4, 2, 5):
        replay.resize(EdgeCounts(atoms))
        found.fill_(7)
        replay.run()
        assert torch.equal(found[:atoms], expected[:atoms])
        assert bool((found[atoms:] == 7).all())
