"""Whole potentials: compiled kernels against plain PyTorch, and through torch.compile and make_fx."""

import pytest
import torch
from torch._dynamo.utils import counters

import cliffordstf
from cliffordstf.kernels import kernel_name, plain_pytorch
from cliffordstf.model import inference, training
from cliffordstf.model.compiled import CompiledPotential
from cliffordstf.model.inference import pair_gradients
from cliffordstf.model.written import WrittenLayer
from cliffordstf.verify.structures import random_cluster, triclinic_crystal

needs_compiler = pytest.mark.skipif(
    kernel_name() != "compiled", reason="no C++ compiler here, so there are no compiled kernels to test"
)
ELEMENTS = (1, 6, 8)


def structures(count: int) -> list[cliffordstf.Structure]:
    return [random_cluster(ELEMENTS, atoms=4 + seed, seed=seed) for seed in range(count)]


def loss_gradients(potential, batch) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    prediction = potential(batch, stress=True, train=True)
    parts = [prediction.energy, prediction.forces, prediction.stress[-1]]
    weights = list(potential.parameters())
    loss = sum((part.square() * torch.arange(1, part.numel() + 1).view_as(part)).sum() for part in parts)
    gradients = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
    return parts, list(gradients)


def assert_plain_pytorch_agrees(potential, batch, monkeypatch) -> None:
    """As `Potential` does it, and with autograd on the kernels as for large batches."""
    with plain_pytorch():
        plain = loss_gradients(potential, batch)
    written_out = loss_gradients(potential, batch)
    monkeypatch.setattr(training, "MOST_ATOMS", 0)
    for found in (written_out, loss_gradients(potential, batch)):
        for ours, theirs in zip((*found[0], *found[1]), (*plain[0], *plain[1]), strict=True):
            scale = max(1e-3, float(theirs.detach().abs().max()))
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11 * scale)


@needs_compiler
@pytest.mark.parametrize("name", ["default", "default/large", "paper/full", "paper/clifford", "paper/output-only"])
def test_kernels_change_nothing(name, monkeypatch):
    """Energies, forces, stresses and the gradient of a loss on them equal those of plain PyTorch to rounding."""
    options = {} if name.startswith("default") else {"hidden": 6, "forces": "conservative"}
    potential = cliffordstf.build(name, elements=ELEMENTS, seed=0, channels=12, **options).double()
    batch = potential.batch([*structures(3), triclinic_crystal(ELEMENTS)])
    assert_plain_pytorch_agrees(potential, batch, monkeypatch)


@needs_compiler
def test_kernels_change_nothing_for_many_small_crystals(monkeypatch):
    """Atoms that are their own neighbours, in so many structures that every thread gets whole ones."""
    potential = cliffordstf.build("default", elements=ELEMENTS, seed=0, channels=8).double()
    batch = potential.batch([triclinic_crystal(ELEMENTS) for _ in range(12)])
    assert (batch.senders == batch.receivers).any()
    assert_plain_pytorch_agrees(potential, batch, monkeypatch)


@pytest.mark.parametrize("name", ["default", "paper/clifford"])
@pytest.mark.parametrize("train", [False, True])
def test_one_compilation_serves_batches_of_any_size(name, train):
    """Inference and training, conservative forces included, with changing numbers of structures, atoms and edges."""
    options = {"lmax": 2} if name == "default" else {"hidden": 4, "forces": "conservative", "layers": 2}
    potential = cliffordstf.build(name, elements=ELEMENTS, seed=0, channels=4, **options).double()
    fast = CompiledPotential(potential, backend="aot_eager")
    counters.clear()
    for count in (3, 2, 5, 4):
        batch = potential.batch(structures(count))
        ours, theirs = fast(batch, train=train), potential(batch, train=train)
        torch.testing.assert_close(ours.energy, theirs.energy, rtol=0, atol=1e-10)
        torch.testing.assert_close(ours.forces, theirs.forces, rtol=0, atol=1e-10)
        if train:
            weights = list(potential.parameters())
            both = [
                torch.autograd.grad(p.forces.square().sum(), weights, allow_unused=True, materialize_grads=True)
                for p in (ours, theirs)
            ]
            for a, b in zip(*both, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_optimising_compiler_takes_it_too():
    potential = cliffordstf.build("default", elements=ELEMENTS, seed=0, channels=4, lmax=1, layers=1)
    fast = CompiledPotential(potential)
    for crystal in (triclinic_crystal(ELEMENTS), triclinic_crystal((1, 8))):
        batch = potential.batch(crystal)
        ours, theirs = fast(batch, stress=True), potential(batch, stress=True)
        torch.testing.assert_close(ours.forces, theirs.forces, rtol=0, atol=1e-5)
        torch.testing.assert_close(ours.stress, theirs.stress, rtol=0, atol=1e-6)


@needs_compiler
@pytest.mark.parametrize(
    "overrides", [{}, {"lmax": 3, "node_lmax": 1, "layers": 3}, {"lmax": 1, "layers": 1}, {"body_order": 2}]
)
def test_the_written_out_gradient_equals_autograd(overrides, monkeypatch):
    """Energies, forces and stresses of molecules and a crystal, in one piece and a few atoms at a time."""
    monkeypatch.setattr(training, "MOST_ATOMS", 0)
    potential = cliffordstf.build(
        "default", elements=ELEMENTS, seed=0, channels=8, energy_scale=0.7, atomic_energies={1: -13.6}, **overrides
    ).double()
    alone = cliffordstf.Structure([8], [[0.0, 0.0, 0.0]])
    batch = potential.batch([*structures(3), triclinic_crystal(ELEMENTS), alone])
    species = potential.species_of_number[batch.numbers]
    ours, theirs = potential(batch, stress=True), potential(batch, stress=True, train=True)
    for name in ("energy", "atom_energies", "forces", "stress"):
        torch.testing.assert_close(
            getattr(ours, name), getattr(theirs, name).detach(), rtol=1e-10, atol=1e-10, equal_nan=True
        )
    whole = pair_gradients(potential.model, batch, species)
    for keep in (0.0, 1e9):
        pieces = pair_gradients(potential.model, batch, species, chunk=5, keep=keep)
        torch.testing.assert_close(pieces.gradients, whole.gradients, rtol=1e-12, atol=1e-12)


@needs_compiler
@pytest.mark.parametrize(("free", "kept"), [(1e3, False), (1e12, True)])
def test_stages_are_kept_as_far_as_memory_is_free(free, kept, monkeypatch):
    potential = cliffordstf.build("default", elements=ELEMENTS, seed=0, channels=8)
    batch = potential.batch(structures(3))
    species = potential.species_of_number[batch.numbers]
    whole = pair_gradients(potential.model, batch, species)
    made = []
    outputs = WrittenLayer.outputs
    monkeypatch.setattr(inference, "free_memory", lambda: free)
    monkeypatch.setattr(
        WrittenLayer, "outputs", lambda self, *arguments: made.append(arguments[5]) or outputs(self, *arguments)
    )
    pieces = pair_gradients(potential.model, batch, species, chunk=5)
    assert made == [kept, kept]
    torch.testing.assert_close(pieces.gradients, whole.gradients, rtol=1e-4, atol=1e-5)


@needs_compiler
def test_inference_sees_changed_weights(monkeypatch):
    """Prepared weights are made again after an update in place, a loaded state and a change of precision."""
    monkeypatch.setattr(training, "MOST_ATOMS", 0)
    potential = cliffordstf.build("default", elements=ELEMENTS, seed=0, channels=8)
    batch = potential.batch(structures(2))

    def check(tolerance: float) -> torch.Tensor:
        ours, theirs = potential(batch).forces, potential(batch, train=True).forces
        torch.testing.assert_close(ours, theirs.detach(), rtol=0, atol=tolerance)
        return ours

    first = check(1e-4)
    with torch.no_grad():
        for parameter in potential.parameters():
            parameter.mul_(0.9)
    second = check(1e-4)
    assert not torch.allclose(first, second)
    potential.load_state_dict(cliffordstf.build("default", elements=ELEMENTS, seed=1, channels=8).state_dict())
    assert not torch.allclose(second, check(1e-4))
    potential.double()
    check(1e-10)
    with torch.inference_mode():
        inside = cliffordstf.build("default", elements=ELEMENTS, seed=1, channels=8)
        torch.testing.assert_close(inside(batch).forces, potential(batch).forces, rtol=0, atol=1e-3)
