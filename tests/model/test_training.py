"""Training on memory that stays, against autograd on plain PyTorch."""

import gc
import weakref

import pytest
import torch

import cliffordstf
from cliffordstf.kernels import kernel_name, plain_pytorch
from cliffordstf.model import training
from cliffordstf.model.potential import Potential
from cliffordstf.verify.structures import random_cluster, triclinic_crystal

pytestmark = pytest.mark.skipif(kernel_name() != "compiled", reason="the kernels cannot be compiled here")
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


def check(potential, structures, stress=False):
    assert training.can_train(potential.model, potential.batch(structures))
    loss, ours = gradients(potential, structures, stress)
    with plain_pytorch():
        expected_loss, expected = gradients(potential, structures, stress)
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
        {"lmax": 4, "layers": 2, "radial_depth": 1, "radial_functions": 5, "basis": 6, "hidden": 7},
    ],
)
def test_gradients_equal_those_of_plain_pytorch(options):
    check(build(**options), clusters(7, 5))


def test_batches_of_all_sizes_go_through_the_same_memory(potential):
    tapes = set()
    for sizes in ((7, 6, 5), (3,), (6, 6), (8, 5, 4)):
        check(potential, clusters(*sizes))
        tapes.add(id(training._known[potential.model][1]))
    assert len(tapes) == 1


def test_a_batch_that_does_not_fit_gets_more_room_once(potential):
    check(potential, clusters(4))
    check(potential, clusters(9, 9, 9))
    room = training._known[potential.model][1].room
    check(potential, clusters(5))
    check(potential, clusters(9, 9, 9))
    assert training._known[potential.model][1].room == room


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
    loss = loss_of(potential(potential.batch(clusters(6)), train=True))
    with pytest.raises(NotImplementedError, match="two derivatives"):
        torch.autograd.grad(loss, list(potential.parameters()), create_graph=True)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_number_of_threads_changes_nothing(threads):
    potential = build(lmax=2).float()
    expected = gradients(potential, clusters(8, 8, 8, 8))[1]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = gradients(potential, clusters(8, 8, 8, 8))[1]
    finally:
        torch.set_num_threads(before)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5 * other.abs().max().item())


def test_what_does_not_fit_the_kernels_is_left_to_autograd(potential):
    lonely = potential.batch(clusters(1))
    assert not training.can_train(potential.model, lonely)
    assert torch.isfinite(potential(lonely, train=True).energy).all()
    odd = build(lmax=1, channels=5)
    assert not training.can_train(odd.model, odd.batch(clusters(6)))
    with plain_pytorch():
        assert not training.can_train(potential.model, potential.batch(clusters(6)))
    paper = cliffordstf.build("paper/full", elements=ELEMENTS, seed=0)
    assert not training.can_train(paper.model, paper.batch(clusters(6)))


def test_memory_goes_with_the_model():
    potential: Potential | None = build(lmax=1)
    gradients(potential, clusters(5))
    tape = weakref.ref(training._known[potential.model][1])
    potential = None
    gc.collect()
    assert tape() is None
