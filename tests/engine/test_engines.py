"""Every engine computes the same."""

import copy
import pickle

import pytest
import torch
from torch._dynamo.utils import counters

import cliffordstf
from cliffordstf.engine import native
from cliffordstf.engine.prediction import Wanted
from cliffordstf.engine.traced import TracedEngine
from cliffordstf.errors import ConfigError
from cliffordstf.verify.structures import random_cluster, triclinic_crystal

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


def assert_engines_agree(potential, batch) -> None:
    """The engine of a potential and autograd on the kernels, both against plain PyTorch."""
    plain = loss_gradients(copy.deepcopy(potential).use("reference"), batch)
    for engine in ("auto", "autograd"):
        found = loss_gradients(copy.deepcopy(potential).use(engine), batch)
        for ours, theirs in zip((*found[0], *found[1]), (*plain[0], *plain[1]), strict=True):
            scale = max(1e-3, float(theirs.detach().abs().max()))
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11 * scale)


@pytest.mark.parametrize("name", ["default", "default/large", "paper/full", "paper/clifford", "paper/output-only"])
def test_kernels_change_nothing(name):
    """Energies, forces, stresses and the gradient of a loss on them equal those of plain PyTorch to rounding."""
    options = {} if name.startswith("default") else {"hidden": 6, "forces": "conservative"}
    potential = cliffordstf.build(name, elements=ELEMENTS, seed=0, channels=12, **options).double()
    batch = potential.batch([*structures(3), triclinic_crystal(ELEMENTS)])
    assert_engines_agree(potential, batch)


def test_kernels_change_nothing_for_many_small_crystals():
    """Atoms that are their own neighbours, in so many structures that every thread gets whole ones."""
    potential = cliffordstf.build("default", elements=ELEMENTS, seed=0, channels=8).double()
    batch = potential.batch([triclinic_crystal(ELEMENTS) for _ in range(12)])
    assert (batch.senders == batch.receivers).any()
    assert_engines_agree(potential, batch)


@pytest.mark.parametrize("name", ["default", "paper/clifford"])
@pytest.mark.parametrize("train", [False, True])
def test_one_compilation_serves_batches_of_any_size(name, train):
    """Inference and training, conservative forces included, with changing numbers of structures, atoms and edges."""
    options = {"lmax": 2} if name == "default" else {"hidden": 4, "forces": "conservative", "layers": 2}
    potential = cliffordstf.build(name, elements=ELEMENTS, seed=0, channels=4, **options).double()
    fast = TracedEngine(backend="aot_eager")
    counters.clear()
    for count in (3, 2, 5, 4):
        batch = potential.batch(structures(count))
        ours, theirs = fast.run(potential, batch, Wanted(train=train)), potential(batch, train=train)
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
    fast = copy.deepcopy(potential).use("traced")
    for crystal in (triclinic_crystal(ELEMENTS), triclinic_crystal((1, 8))):
        batch = potential.batch(crystal)
        ours, theirs = fast(batch, stress=True), potential(batch, stress=True)
        torch.testing.assert_close(ours.forces, theirs.forces, rtol=0, atol=1e-5)
        torch.testing.assert_close(ours.stress, theirs.stress, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"lmax": 3, "node_lmax": 1, "layers": 3},
        {"lmax": 1, "layers": 1},
        {"body_order": 2},
        {"channels": 5},
        {"pooling": "mean"},
        {"repulsion": "zbl", "repulsion_distances": {"H-H": 1.5, "C-O": 2.0, "O-O": 1.9}},
    ],
)
def test_the_runtime_equals_autograd(overrides):
    """Energies, forces and stresses of molecules, a crystal and an atom alone."""
    options = {"channels": 8, "energy_scale": 0.7, "atomic_energies": {1: -13.6}, **overrides}
    potential = cliffordstf.build("default", elements=ELEMENTS, seed=0, **options).double()
    alone = cliffordstf.Structure([8], [[0.0, 0.0, 0.0]])
    batch = potential.batch([*structures(3), triclinic_crystal(ELEMENTS), alone])
    ours, theirs = potential(batch, stress=True), copy.deepcopy(potential).use("autograd")(batch, stress=True)
    assert potential.engine.name == "native"
    for name in ("energy", "atom_energies", "forces", "stress"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), rtol=1e-10, atol=1e-10, equal_nan=True)
    alone_energies = potential(batch, forces=False)
    assert alone_energies.forces is None
    torch.testing.assert_close(alone_energies.energy, ours.energy, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("overrides", [{}, {"layers": 3, "node_lmax": 1, "repulsion": "zbl"}])
def test_large_systems_go_through_in_parts(overrides, monkeypatch):
    """Beyond 2,048 atoms a range at a time, with values kept between the way forward and back, and made again."""
    potential = cliffordstf.build("default", elements=ELEMENTS, seed=0, channels=4, lmax=2, **overrides).double()
    batch = potential.batch([random_cluster(ELEMENTS, atoms=30, seed=seed) for seed in range(80)])
    assert len(batch.numbers) > native.LARGE
    theirs = copy.deepcopy(potential).use("autograd")(batch)
    for free in (1e3, 1e12):
        monkeypatch.setattr(native, "free_memory", lambda free=free: free)
        ours = potential(batch)
        torch.testing.assert_close(ours.energy, theirs.energy, rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(ours.forces, theirs.forces, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(potential(batch, forces=False).energy, theirs.energy, rtol=1e-11, atol=1e-11)


def test_inference_follows_changed_weights():
    """The runtime's copy is made again after an update in place, a loaded state and a change of precision."""
    potential = cliffordstf.build("default", elements=ELEMENTS, seed=0, channels=8)
    batch = potential.batch(structures(2))

    def check(tolerance: float) -> torch.Tensor:
        ours, theirs = potential(batch).forces, copy.deepcopy(potential).use("reference")(batch).forces
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


def test_changes_of_the_reference_and_of_parts_are_followed(monkeypatch):
    potential = cliffordstf.build("default", elements=ELEMENTS, seed=0, channels=8)
    batch = potential.batch(structures(2))
    before = potential(batch).energy
    potential.reference.energies.add_(1.0)
    torch.testing.assert_close(potential(batch).energy, before + batch.atoms_per_structure())
    other = cliffordstf.build("default", elements=ELEMENTS, seed=1, channels=8)
    potential.model.layers[0] = other.model.layers[0]
    expected = copy.deepcopy(potential).use("reference")(batch).energy
    torch.testing.assert_close(potential(batch).energy, expected, rtol=1e-5, atol=1e-5)


class TestChoice:
    """Which engine is picked, and that it is told."""

    def test_it_prints_which_and_why(self):
        potential = cliffordstf.build("default", elements=ELEMENTS, seed=0, channels=8)
        assert str(potential.engine) == "native (schedule in C++, float32)"
        assert str(potential.double().engine) == "native (schedule in C++, float64)"
        assert str(potential.half().engine) == "autograd (its weights are float16)"

    def test_the_environment_overrides_it(self, monkeypatch):
        monkeypatch.setenv("CLIFFORDSTF_ENGINE", "autograd")
        assert cliffordstf.build("default", elements=ELEMENTS, engine="native").engine.name == "autograd"

    def test_an_unknown_name_is_one_sentence(self, monkeypatch):
        with pytest.raises(ConfigError, match=r"engine is 'nativ' \(did you mean 'native'\?\); choose one of auto"):
            cliffordstf.build("default", elements=ELEMENTS, engine="nativ")
        monkeypatch.setenv("CLIFFORDSTF_ENGINE", "fast")
        with pytest.raises(ConfigError, match="the environment variable CLIFFORDSTF_ENGINE is 'fast'"):
            cliffordstf.build("default", elements=ELEMENTS)

    def test_what_cannot_run_is_refused_with_the_reason(self):
        potential = cliffordstf.build("paper/full", elements=ELEMENTS, engine="native")
        with pytest.raises(ConfigError, match="engine='native' cannot run this potential: its forces come from"):
            _ = potential.engine

    def test_copies_keep_the_wish_and_share_nothing(self):
        potential = cliffordstf.build("default", elements=ELEMENTS, seed=0, channels=8, engine="native")
        batch = potential.batch(structures(1))
        potential(batch)
        twin = pickle.loads(pickle.dumps(copy.deepcopy(potential)))
        assert twin.engine.name == "native"
        assert twin.engine.engine is not potential.engine.engine
        assert torch.equal(twin(batch).forces, potential(batch).forces)
