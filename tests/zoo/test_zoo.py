"""The physics suite on every peer that is installed, and what an adapter promises beside it."""

import copy
import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import ase.io
import numpy as np
import pytest
import torch
from ase import Atoms
from ase.calculators.lj import LennardJones

from cliffordstf import zoo
from cliffordstf.data.structure import Structure
from cliffordstf.errors import ConfigError
from cliffordstf.model.file import load_model
from cliffordstf.model.potential import Potential
from cliffordstf.train.config import load_config
from cliffordstf.train.run import resume, train
from cliffordstf.verify import physics, symmetries
from cliffordstf.verify.structures import random_cluster, triclinic_crystal
from tests.zoo.expected import MANY_ELEMENTS, NARROW, NATURE, PARAMETERS, SMOOTHNESS, WIDTHS, Nature
from tests.zoo.weights import move_weights

ELEMENTS = (1, 6, 8)


@functools.cache
def problem(name: str) -> str | None:
    return zoo.available(name)


def options(name: str) -> dict:
    """Few channels: the wiring is the same, the suite is quick."""
    return NARROW.get(family(name), {})


def family(name: str) -> str:
    return re.sub("-(l[0-9].*|md17|oc|qm9)$", "", name)


NAMES = [name for name in zoo.names() if not name.endswith(("-md17", "-oc", "-qm9"))]
"""Without the rows of the paper's settings tables: the same models with other widths and cutoffs."""


@functools.cache
def narrow(name: str, dtype: torch.dtype = torch.float64) -> Potential:
    """A narrow peer with no weight at its initial value."""
    potential = zoo.build(name, ELEMENTS, seed=0, dtype=dtype, **options(name)).eval()
    move_weights(potential)
    return potential


@pytest.fixture(params=[name for name in NAMES if name not in WIDTHS])
def name(request) -> str:
    if problem(request.param):
        pytest.skip(problem(request.param))
    return request.param


@pytest.fixture
def nature(name) -> Nature:
    return NATURE.get(family(name), Nature())


@pytest.fixture
def potential(name) -> Potential:
    return narrow(name)


def test_forces_are_the_gradient_of_the_energy(potential, nature):
    if not nature.conservative:
        pytest.skip("forces come from a head of their own")
    assert physics.force_error(potential, random_cluster(ELEMENTS, atoms=5)) < nature.derivative_tolerance
    assert physics.force_error(potential, triclinic_crystal(ELEMENTS)) < nature.derivative_tolerance


@pytest.mark.parametrize("name", ["equiformer-l2", "equiformer-l4", "faenet"])
def test_a_peer_with_a_force_head_can_do_without(name):
    if problem(name):
        pytest.skip(problem(name))
    potential = zoo.build(name, ELEMENTS, seed=0, dtype=torch.float64, forces="conservative", **options(name)).eval()
    assert potential.force_mode == "conservative"
    direct = sum(weight.numel() for weight in narrow(name).parameters())
    assert sum(weight.numel() for weight in potential.parameters()) < direct
    assert physics.force_error(potential, random_cluster(ELEMENTS, atoms=5)) < 1e-6


def test_stress_is_the_strain_derivative_of_the_energy(potential, nature):
    assert physics.stress_error(potential, triclinic_crystal(ELEMENTS)) < nature.derivative_tolerance


def test_rotation_inversion_translation_permutation(potential, nature):
    found = symmetries.check_symmetries(potential, claims_o3=True)
    assert {key: error for key, error in found.errors().items() if error > nature.tolerance(key)} == {}


def test_supercell_and_cell_choice(potential, nature):
    assert physics.supercell_error(potential, triclinic_crystal(ELEMENTS)) < nature.tolerance("supercell")
    assert physics.cell_choice_error(potential, triclinic_crystal(ELEMENTS)) < nature.tolerance("supercell")


def test_far_apart_structures_add(potential, nature):
    assert physics.separation_error(potential) < nature.tolerance("separation")


def test_no_leak_between_structures_of_a_batch(potential, nature):
    structures = [random_cluster(ELEMENTS, 5), triclinic_crystal(ELEMENTS), Structure([1], np.zeros((1, 3)))]
    assert physics.batch_error(potential, structures) < nature.tolerance("batch")


@pytest.mark.parametrize("atoms", [1, 2])
def test_atoms_without_neighbours(potential, nature, atoms):
    alone = Structure(np.full(atoms, 8), np.arange(3 * atoms).reshape(atoms, 3) * 50.0)
    prediction = potential.predict(alone)
    assert torch.isfinite(prediction.energy).all()
    assert prediction.forces.shape == (atoms, 3)
    assert prediction.forces.abs().max() <= nature.free_atom_force


def test_smoothness_at_the_cutoff(name, potential):
    found = physics.continuous_derivatives(potential)
    assert found == SMOOTHNESS[family(name)], physics.cutoff_jump(potential, 1e-3)


def test_a_training_step_reaches_every_weight(name, nature):
    potential = copy.deepcopy(narrow(name, torch.float32)).train()
    batch = potential.batch([random_cluster(ELEMENTS, 6, seed=1), triclinic_crystal(ELEMENTS)])
    before = potential.state_dict()
    before = {key: value.clone() for key, value in before.items()}
    prediction = potential(batch, stress=True, train=True)
    loss = (
        prediction.energy.square().sum() + (prediction.forces - 0.1).square().sum() + prediction.stress.square().sum()
    )
    loss.backward()
    dead = [key for key, weight in potential.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert [key for key in dead if not key.endswith(nature.dead_weights)] == []
    assert all(weight.grad is None or torch.isfinite(weight.grad).all() for weight in potential.parameters())
    torch.optim.Adam(potential.parameters(), lr=1e-3).step()
    assert any(not torch.equal(before[key], value) for key, value in potential.state_dict().items())


def test_single_precision_follows_double_precision(name, potential, nature):
    crystal = triclinic_crystal(ELEMENTS)
    single = copy.deepcopy(potential).float().predict(crystal)
    assert symmetries.prediction_error(potential.predict(crystal), single) < nature.single_precision
    again = narrow(name, torch.float32)
    assert torch.isfinite(copy.deepcopy(again).double().predict(crystal).energy).all()


def test_copies_and_state_dicts(name, potential):
    cluster = random_cluster(ELEMENTS, 5)
    other = zoo.build(name, ELEMENTS, seed=1, dtype=torch.float64, **options(name)).eval()
    expected = potential.predict(cluster)
    assert not torch.equal(other.predict(cluster).energy, expected.energy)
    other.load_state_dict(potential.state_dict())
    for same in (other, copy.deepcopy(potential)):
        assert symmetries.prediction_error(expected, same.predict(cluster)) < 1e-12


def test_scale_and_reference_energies_are_added_outside(name):
    chosen = {"seed": 0, "dtype": torch.float64, **options(name)}
    plain = zoo.build(name, ELEMENTS, **chosen).eval().predict(random_cluster(ELEMENTS, 3))
    moved = zoo.build(name, ELEMENTS, atomic_energies={1: -10.0, 6: -20.0, 8: -30.0}, energy_scale=2.0, **chosen)
    prediction = moved.eval().predict(random_cluster(ELEMENTS, 3))
    torch.testing.assert_close(prediction.energy, 2 * plain.energy - 60.0)
    torch.testing.assert_close(prediction.forces, 2 * plain.forces)


@pytest.mark.parametrize("name", [name for name in zoo.names() if name in NAMES or name in WIDTHS])
def test_about_a_million_parameters(name):
    if problem(name):
        pytest.skip(problem(name))
    elements = range(1, 101) if name in MANY_ELEMENTS else (1, 6, 7, 8)
    count = sum(weight.numel() for weight in zoo.build(name, list(elements), seed=0).parameters())
    assert count == pytest.approx(PARAMETERS.get(name, 1e6), rel=0.15)


def test_the_seed_decides_and_the_random_state_stays(name):
    state, dtype = torch.get_rng_state(), torch.get_default_dtype()
    first, second = (zoo.build(name, ELEMENTS, seed=3, **options(name)) for _ in range(2))
    assert torch.equal(state, torch.get_rng_state())
    assert torch.get_default_dtype() == dtype
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


FRESH_PROCESS = """
import os, sys, torch
from cliffordstf import zoo
peers = {"mace", "schnetpack", "nequip", "e3nn", "torch_geometric", "torchmdnet", "fairchem", "faenet"}
early = peers & set(sys.modules)
assert not early, early
before, state = dict(os.environ), torch.get_rng_state()
zoo.build(NAME, (1, 8), seed=0, **OPTIONS)
assert dict(os.environ) == before, set(os.environ) ^ set(before)
assert torch.get_default_dtype() == torch.float32
assert torch.equal(state, torch.get_rng_state())
"""


@pytest.mark.parametrize("name", {family(name): name for name in NAMES}.values())
def test_nothing_is_left_behind(name, tmp_path):
    """No output, no files, no environment variables, the same default dtype and random state."""
    if problem(name):
        pytest.skip(problem(name))
    script = f"NAME, OPTIONS = {name!r}, {options(name)!r}\n{FRESH_PROCESS}"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_unknown_names_and_options_are_one_clear_error():
    with pytest.raises(
        ConfigError, match=r"there is no peer 'mace-l4' \(did you mean 'mace-l[123]'\?\); choose one of"
    ):
        zoo.build("mace-l4", ELEMENTS)
    with pytest.raises(ConfigError, match=r"there is no option 'model.chanels' \(did you mean 'channels'\?\)\."):
        zoo.build("painn", ELEMENTS, chanels=3)
    with pytest.raises(ConfigError, match=r"option 'model.layers' is 0, but it must be a whole number of at least 1"):
        zoo.build("schnet", ELEMENTS, layers=0)


def test_a_missing_package_is_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "mace.modules", None)
    monkeypatch.setitem(sys.modules, "mace", None)
    sentence = zoo.available("mace-l1")
    assert sentence is not None
    assert "needs mace-torch==0.3.16" in sentence
    assert "make peers" in sentence
    with pytest.raises(ConfigError, match="needs mace-torch"):
        zoo.build("mace-l1", ELEMENTS)


@pytest.fixture
def molecules(tmp_path) -> Path:
    """Sixteen clusters of six atoms with Lennard-Jones energies and forces."""
    images = []
    for seed in range(16):
        structure = random_cluster(ELEMENTS, atoms=6, seed=seed)
        images.append(Atoms(structure.numbers, structure.positions, calculator=LennardJones(sigma=1.2, epsilon=0.3)))
        images[-1].get_forces()
    ase.io.write(tmp_path / "molecules.extxyz", images)
    return tmp_path / "molecules.extxyz"


def test_a_trained_peer_comes_back_from_its_file(name, molecules, tmp_path):
    """Peers are presets like ours: trained, saved, resumed from a checkpoint and loaded by name."""
    options_of_run = [f"model.{key}={json.dumps(value)}" for key, value in options(name).items()]
    base = [
        f"data.train={molecules}",
        "data.valid=4",
        "data.test=4",
        f"model.preset={name}",
        "epochs=1",
        "batch_size=4",
    ]
    result = train(load_config(None, [*base, *options_of_run]), tmp_path / "run")
    assert result is not None
    again = resume(tmp_path / "run", epochs=2)
    assert again is not None
    assert again.provenance["steps"] == 2 * result.provenance["steps"]
    potential = load_model(tmp_path / "run" / "model.safetensors")[0]
    structure = random_cluster(ELEMENTS, atoms=5, seed=99)
    torch.testing.assert_close(potential.predict(structure).forces, again.potential.predict(structure).forces)
