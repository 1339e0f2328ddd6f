"""Evaluations that are repeated on the memory of the last one."""

import threading
from dataclasses import replace

import pytest
import torch

import cliffordstf
from cliffordstf.kernels import kernel_name, plain_pytorch
from cliffordstf.model import inference
from cliffordstf.model.tape import Tape
from cliffordstf.verify.structures import random_cluster

pytestmark = pytest.mark.skipif(kernel_name() != "compiled", reason="the kernels cannot be compiled here")
ELEMENTS = (1, 6, 8)


@pytest.fixture
def potential():
    return cliffordstf.build("default", elements=ELEMENTS, seed=0, channels=5, lmax=2, energy_scale=0.7).double()


def moved(batch, seed):
    noise = 0.02 * torch.randn(
        batch.positions.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    return batch.with_geometry(batch.positions + noise, batch.cell)


def check(potential, batch):
    ours = potential(batch)
    with plain_pytorch():
        theirs = potential(batch, train=True)
    torch.testing.assert_close(ours.energy, theirs.energy.detach(), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(ours.forces, theirs.forces.detach(), rtol=0, atol=1e-11)
    return ours


@pytest.mark.parametrize(
    "overrides", [{}, {"lmax": 3, "layers": 3, "node_lmax": 1}, {"lmax": 1, "layers": 1}, {"radial_elements": False}]
)
def test_every_step_of_dynamics_equals_autograd(overrides):
    options = {"channels": 8, "lmax": 2} | overrides
    potential = cliffordstf.build("default", elements=ELEMENTS, seed=0, **options).double()
    batch = potential.batch([random_cluster(ELEMENTS, atoms=9, seed=0), random_cluster(ELEMENTS, atoms=7, seed=1)])
    for seed in range(4):
        check(potential, moved(batch, seed))


def test_results_are_not_overwritten_by_the_next_evaluation(potential):
    batch = potential.batch(random_cluster(ELEMENTS, atoms=8, seed=0))
    species = potential.species_of_number[batch.numbers]
    first = inference.pair_gradients(potential.model, batch, species)
    before = first.gradients.clone(), first.atom_energies.clone()
    inference.pair_gradients(potential.model, moved(batch, 1), species)
    assert torch.equal(first.gradients, before[0])
    assert torch.equal(first.atom_energies, before[1])


def test_other_elements_edges_weights_and_threads_are_noticed(potential):
    batch = potential.batch(random_cluster(ELEMENTS, atoms=8, seed=0))
    check(potential, batch)
    numbers = batch.numbers.roll(1)
    check(potential, replace(batch, numbers=numbers))
    batch.numbers.copy_(numbers)
    check(potential, batch)
    check(potential, potential.batch(random_cluster(ELEMENTS, atoms=8, seed=3)))
    check(potential, batch)
    with torch.no_grad():
        for parameter in potential.parameters():
            parameter.mul_(0.9)
    check(potential, batch)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        check(potential, moved(batch, 2))
    finally:
        torch.set_num_threads(threads)


def test_memory_from_inference_mode_serves_outside_of_it(potential):
    batch = potential.batch(random_cluster(ELEMENTS, atoms=8, seed=0))
    with torch.inference_mode():
        inside = potential(batch).forces
    torch.testing.assert_close(check(potential, batch).forces, inside.clone(), rtol=0, atol=1e-12)


def test_threads_do_not_write_into_each_others_memory(potential):
    batch = potential.batch(random_cluster(ELEMENTS, atoms=20, seed=0))
    geometries = [moved(batch, seed) for seed in range(4)]
    expected = [potential(geometry).forces for geometry in geometries]
    wrong = []

    def work(index):
        for _ in range(20):
            if not torch.equal(potential(geometries[index]).forces, expected[index]):
                wrong.append(index)

    workers = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_large_batches_are_not_kept(potential, monkeypatch):
    monkeypatch.setattr(inference, "RECORDED", 10)
    check(potential, potential.batch(random_cluster(ELEMENTS, atoms=12, seed=0)))
    assert inference._written(potential.model).record is None
    check(potential, potential.batch(random_cluster(ELEMENTS, atoms=9, seed=0)))
    assert inference._written(potential.model).record is not None


def test_a_tape_runs_again_on_new_values():
    source, target = torch.tensor([1.0]), torch.empty(1)
    tape = Tape(is_recording=True)
    tape.do(lambda: target.copy_(2 * source))
    doubled = tape.fill((lambda: target.add_(1), target))
    source.fill_(5.0)
    tape.again()
    assert doubled.item() == 11.0
