"""Training on the C++ runtime, against autograd on plain PyTorch."""

import copy
import gc
import threading
import weakref

import pytest
import torch
from ase import Atoms

import cliffordstf
from cliffordstf.kernels import update_matrices
from cliffordstf.kernels.native.library import chunks_for
from cliffordstf.model.potential import Potential
from cliffordstf.verify.structures import random_cluster, triclinic_crystal

ELEMENTS = (1, 6, 8)


def build(**options):
    return cliffordstf.build(
        "default", elements=ELEMENTS, seed=0, energy_scale=0.7, **{"channels": 8, **options}
    ).double()


@pytest.fixture
def potential():
    return build(lmax=2)


def clusters(*sizes):
    return [random_cluster(ELEMENTS, atoms=size, seed=seed) for seed, size in enumerate(sizes)]


def loss_of(prediction):
    """A random linear function of all that is predicted, the same for equal shapes."""
    generator = torch.Generator().manual_seed(0)
    parts = [prediction.energy, prediction.forces, prediction.stress]
    return sum(
        (part * torch.randn(part.shape, generator=generator).double()).sum() for part in parts if part is not None
    )


def gradients(potential, structures, stress=False):
    batch = potential.batch(structures)
    weights = [weight for weight in potential.parameters() if weight.requires_grad]
    loss = loss_of(potential(batch, stress=stress, train=True))
    return loss.detach(), torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)


def plain(potential):
    """The same potential on plain PyTorch."""
    return copy.deepcopy(potential).use("reference")


def check(potential, structures, stress=False):
    loss, ours = gradients(potential, structures, stress)
    assert potential.engine.name == "native"
    expected_loss, expected = gradients(plain(potential), structures, stress)
    torch.testing.assert_close(loss, expected_loss, rtol=1e-10, atol=1e-10)
    size = max(gradient.abs().max() for gradient in expected)
    for our, their in zip(ours, expected, strict=True):
        torch.testing.assert_close(our, their, rtol=1e-9, atol=1e-11 * size)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lmax": 1, "layers": 1},
        {"lmax": 3, "layers": 3, "node_lmax": 1, "body_order": 3},
        {"lmax": 2, "body_order": 2},
        {"lmax": 2, "pseudoscalar": True, "body_order": 5},
        {"lmax": 2, "radial_elements": False},
        {"lmax": 4, "layers": 2, "radial_depth": 1, "radial_functions": 5, "basis": 6, "hidden": 7},
    ],
)
def test_gradients_equal_those_of_plain_pytorch(options):
    check(build(**options), clusters(7, 5))


@pytest.mark.parametrize("channels", [5, 8, 17])
def test_channels_need_not_be_whole_vectors(channels):
    check(build(lmax=2, channels=channels), clusters(6, 4))


def test_batches_of_all_sizes_go_through_the_same_workspace(potential):
    trainers = set()
    for sizes in ((7, 6, 5), (3,), (6, 6), (9, 9, 9)):
        check(potential, clusters(*sizes))
        trainers.add(id(potential.engine.engine._trainer))
    assert len(trainers) == 1


def test_a_batch_of_more_atoms_than_go_in_one_piece_elsewhere():
    check(build(lmax=1, channels=4, layers=1), clusters(*[30] * 75))


def test_a_structure_may_be_dealt_out_in_parts(potential):
    structures = clusters(60)
    assert chunks_for(len(potential.batch(structures).senders), 128) >= 3
    check(potential, structures)


def test_an_atom_without_neighbours_may_be_among_others(potential):
    check(potential, [*clusters(6), random_cluster(ELEMENTS, atoms=1, seed=0), *clusters(4)])


def test_memory_from_inference_mode_serves_outside_of_it(potential):
    with torch.inference_mode():
        potential(potential.batch(clusters(6)), train=True)
    check(potential, clusters(6))


def test_stress_is_trained_on_as_well(potential):
    check(potential, [triclinic_crystal(ELEMENTS, seed=seed) for seed in (1, 2)], stress=True)


def test_two_batches_may_wait_for_their_gradient(potential):
    weights = list(potential.parameters())
    groups = [clusters(6, 4), clusters(7)]
    losses = [loss_of(potential(potential.batch(group), train=True)) for group in groups]
    together = torch.autograd.grad(sum(losses), weights)
    apart = [gradients(potential, group)[1] for group in groups]
    for both, one, other in zip(together, *apart, strict=True):
        torch.testing.assert_close(both, one + other, rtol=1e-10, atol=1e-12)


def test_a_gradient_may_be_asked_for_twice(potential):
    loss = loss_of(potential(potential.batch(clusters(6, 4)), train=True))
    weights = list(potential.parameters())
    first = torch.autograd.grad(loss, weights, retain_graph=True)
    for one, other in zip(first, torch.autograd.grad(loss, weights), strict=True):
        assert torch.equal(one, other)


def test_copies_and_other_precisions_have_memory_of_their_own(potential):
    check(potential, clusters(6))
    twin = copy.deepcopy(potential)
    with torch.no_grad():
        for weight in twin.parameters():
            weight.mul_(0.9)
    check(twin, clusters(5))
    check(potential, clusters(5))
    assert potential.float()(potential.batch(clusters(5)), train=True).energy.dtype == torch.float64
    check(potential.double(), clusters(5))


def test_threads_may_train_one_model_at_once(potential):
    groups = [clusters(7, 5), clusters(4, 6)]
    expected = [gradients(potential, group)[1] for group in groups]
    wrong = []

    def work(group, right):
        for _ in range(10):
            found = gradients(potential, group)[1]
            if not all(torch.allclose(a, b, rtol=1e-10, atol=1e-12) for a, b in zip(found, right, strict=True)):
                wrong.append(group)

    workers = [threading.Thread(target=work, args=pair) for pair in zip(groups, expected, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_gradients_are_not_overwritten_by_the_next_step(potential):
    _, first = gradients(potential, clusters(6))
    before = [gradient.clone() for gradient in first]
    gradients(potential, clusters(5))
    assert all(torch.equal(gradient, copy) for gradient, copy in zip(first, before, strict=True))


def test_frozen_weights_get_no_gradient_and_others_do(potential):
    for name, weight in potential.named_parameters():
        weight.requires_grad_("layers.1" in name or "readout" in name)
    check(potential, clusters(6, 5))
    potential.requires_grad_(True)
    check(potential, clusters(6, 5))


def test_new_weights_are_used_whether_written_in_place_or_put_in_place_of_the_old(potential):
    check(potential, clusters(6))
    with torch.no_grad():
        for weight in potential.parameters():
            weight.mul_(0.9)
    check(potential, clusters(6))
    linear = potential.model.layers[0].linear_up
    linear.weight = torch.nn.Parameter(1.1 * linear.weight.detach())
    check(potential, clusters(6))


def test_a_weight_that_changes_before_the_gradient_is_asked_for_is_refused(potential):
    loss = loss_of(potential(potential.batch(clusters(6)), train=True))
    with torch.no_grad():
        next(iter(potential.parameters())).mul_(0.9)
    with pytest.raises(RuntimeError, match="a weight was changed"):
        loss.backward()


def test_a_third_derivative_is_refused(potential):
    weights = list(potential.parameters())
    expected = gradients(potential, clusters(6))[1]
    loss = loss_of(potential(potential.batch(clusters(6)), train=True))
    found = torch.autograd.grad(loss, weights, create_graph=True)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    with pytest.raises(NotImplementedError, match="one derivative"):
        torch.autograd.grad(sum(gradient.square().sum() for gradient in found), weights)


def test_an_update_by_muon_is_noticed(potential):
    """The optimiser's kernel writes weights by their address."""
    matrix = potential.model.layers[0].linear_up.weight
    loss = loss_of(potential(potential.batch(clusters(6)), train=True))
    with torch.no_grad():
        update_matrices([(matrix, torch.ones_like(matrix), torch.zeros_like(matrix))], 0.1, 0.9, 0.0)
    with pytest.raises(RuntimeError, match="a weight was changed"):
        loss.backward()
    check(potential, clusters(6))


@pytest.mark.parametrize("threads", [2, 3])
def test_the_number_of_threads_changes_nothing(threads):
    potential = build(lmax=2, channels=16).float()
    structures = clusters(*[10] * 12)
    before = torch.get_num_threads()
    found = []
    try:
        for count in (1, threads):
            torch.set_num_threads(count)
            found.append(gradients(potential, structures)[1])
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5 * other.abs().max().item())


def test_energies_alone_are_trained_on_without_their_gradient(potential):
    batch = potential.batch([*clusters(6, 4, 1), triclinic_crystal(ELEMENTS)])
    found = []
    for each in (potential, plain(potential)):
        loss = each(batch, forces=False, train=True).energy.square().sum()
        found.append(torch.autograd.grad(loss, list(each.parameters()), allow_unused=True, materialize_grads=True))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    check(potential, clusters(6))


def test_an_atom_alone_has_no_pairs(potential):
    check(potential, clusters(1))


def test_the_mean_over_atoms_is_trained_on(potential):
    check(build(lmax=2, pooling="mean"), clusters(6, 3))


def test_repulsion_is_no_part_of_the_weights():
    potential = build(lmax=2, repulsion="zbl", repulsion_distances={"H-H": 1.5, "H-O": 1.6, "C-O": 2.0})
    batch = potential.batch(clusters(8, 6))
    assert potential.short_range.is_near(
        batch, potential.short_range.limits(batch, potential.species_of_number[batch.numbers])
    )
    check(potential, clusters(8, 6))


def test_models_without_a_schedule_are_left_to_autograd():
    chosen = cliffordstf.build("paper/full", elements=ELEMENTS, seed=0).engine
    assert chosen.name == "autograd"
    assert chosen.reason == "its forces come from a head of their own"


def test_weights_may_lie_in_another_order(potential):
    linear = potential.model.layers[0].linear_up
    linear.weight = torch.nn.Parameter(linear.weight.detach().mT.contiguous().mT)
    check(potential, clusters(6))


def _weight_norm(potential):
    torch.nn.utils.parametrizations.weight_norm(potential.model.radial.network[2])


def _other_activation(potential):
    potential.model.layer_readouts[-1][1] = torch.nn.Tanh()


@pytest.mark.parametrize("change", [_weight_norm, _other_activation])
def test_models_that_a_user_has_changed_are_left_to_autograd(potential, change):
    check(potential, clusters(6))
    change(potential)
    ours = gradients(potential, clusters(6))
    assert potential.engine.name == "autograd"
    theirs = gradients(plain(potential), clusters(6))
    for one, other in zip((ours[0], *ours[1]), (theirs[0], *theirs[1]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    batch = potential.batch(clusters(6))
    expected = potential(batch, train=True).forces.detach()
    torch.testing.assert_close(potential(batch).forces, expected, rtol=1e-9, atol=1e-9)


def test_forces_that_nobody_asked_for_are_not_there(potential):
    crystal = potential.batch(triclinic_crystal(ELEMENTS))
    for train in (False, True):
        prediction = potential(crystal, forces=False, stress=True, train=train)
        assert prediction.forces is None
        assert prediction.stress is not None


def test_memory_can_be_given_back(potential):
    check(potential, clusters(5))
    work = weakref.ref(potential.engine.engine._trainer.work)
    potential.release()
    gc.collect()
    assert work() is None
    check(potential, clusters(5))


def test_memory_goes_with_the_model():
    potential: Potential | None = build(lmax=1)
    gradients(potential, clusters(5))
    work = weakref.ref(potential.engine.engine._trainer.work)
    potential = None
    gc.collect()
    assert work() is None


def test_two_trainings_and_a_calculator_at_once_get_the_bits_of_running_alone():
    """Nothing that decides what is computed belongs to the process: every thread gets what it gets alone."""
    potentials = [build(lmax=2, channels=8 + 4 * number) for number in range(3)]
    cluster = random_cluster(ELEMENTS, atoms=9, seed=5)
    atoms = Atoms(numbers=cluster.numbers, positions=cluster.positions)
    calculator = cliffordstf.Calculator(potentials[2])

    def dynamics():
        found = []
        moving = atoms.copy()
        moving.calc = calculator
        for step in range(40):
            moving.positions = atoms.positions + 1e-3 * step
            found.append(moving.get_forces())
        return found

    def training(potential, groups):
        return [gradients(potential, group)[1] for _ in range(8) for group in groups]

    jobs = [
        lambda: training(potentials[0], [clusters(7, 5), clusters(4)]),
        lambda: training(potentials[1], [clusters(6), clusters(5, 5)]),
        dynamics,
    ]
    alone = [job() for job in jobs]
    together: list = [None] * len(jobs)

    def work(number):
        together[number] = jobs[number]()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(len(jobs))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for one, other in zip(alone[0] + alone[1], together[0] + together[1], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert all((a == b).all() for a, b in zip(alone[2], together[2], strict=True))


@pytest.mark.parametrize("name", ["default", "paper/full"])
def test_a_training_run_with_kernels_follows_one_without(name):
    """Not only one gradient: weights after many updates, each of which starts from where the last one led."""
    options = {"channels": 8, "lmax": 2} if name == "default" else {"channels": 8, "hidden": 8, "layers": 2, "heads": 2}
    structures = clusters(6, 5, 7)
    labels = torch.randn(18, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def run(potential):
        optimizer = torch.optim.Adam(potential.parameters(), lr=1e-3)
        losses = []
        for _ in range(25):
            optimizer.zero_grad()
            prediction = potential(potential.batch(structures), train=True)
            loss = prediction.energy.square().mean() + (prediction.forces - labels).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [weight.detach().clone() for weight in potential.parameters()]

    def fresh():
        return cliffordstf.build(name, elements=ELEMENTS, seed=0, **options).double()

    losses, weights = run(fresh())
    plain_losses, plain_weights = run(fresh().use("reference"))
    assert losses[-1] < 0.99 * losses[0]
    torch.testing.assert_close(losses, plain_losses, rtol=1e-7, atol=0.0)
    for weight, plain in zip(weights, plain_weights, strict=True):
        torch.testing.assert_close(weight, plain, rtol=0, atol=1e-6)
