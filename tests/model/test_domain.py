"""Atoms that are like none of the training set are told from those that are."""

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk
from ase.calculators.lj import LennardJones
from ase.io import read, write

from cliffordstf.data.load import load_frames
from cliffordstf.errors import ConfigError
from cliffordstf.integrations.ase import Calculator
from cliffordstf.model.domain import FEWEST, fit_domain
from cliffordstf.model.file import load_model, save_model
from cliffordstf.screening.prediction import evaluated
from cliffordstf.simulate.guards import Guards, SimulationError
from cliffordstf.simulate.md import run_md
from cliffordstf.simulate.settings import MDSettings
from cliffordstf.train.config import load_config
from cliffordstf.train.run import train
from cliffordstf.verify.structures import random_cluster


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model of clusters of argon, and their file."""
    folder = tmp_path_factory.mktemp("domain")
    images = []
    for seed in range(60):
        structure = random_cluster((18,), atoms=5, seed=seed, spacing=2.4)
        atoms = Atoms(structure.numbers, structure.positions)
        atoms.calc = LennardJones(sigma=2.2, epsilon=0.3, rc=8.0)
        atoms.get_forces()
        images.append(atoms)
    write(folder / "clusters.extxyz", images)
    options = [f"data.train={folder / 'clusters.extxyz'}", "data.valid=10", "model.preset=default/small", "epochs=5"]
    train(load_config(None, [*options, "model.channels=8", "batch_size=5", "seed=1"]), folder / "run")
    return folder


def of_file(run):
    return load_model(run / "run" / "model.safetensors")[0]


def test_most_of_the_training_set_is_inside(run):
    potential = of_file(run)
    frames = load_frames(run / "clusters.extxyz").frames
    found = potential.extrapolation(potential.batch([frame.structure for frame in frames]))
    assert found is not None
    assert float((found < 1).double().mean()) > 0.97


@pytest.mark.parametrize("distance", [0.3, 0.8])
def test_atoms_much_too_close_are_outside(run, distance):
    atoms = Atoms("Ar5", [[0, 0, 0], [distance, 0, 0], [0, 3, 0], [3, 0, 0], [0, 0, 3]])
    atoms.calc = Calculator(run / "run")
    assert atoms.calc.get_extrapolation(atoms)[:2].min() > 1.5


def test_an_environment_that_was_never_seen_is_outside(run):
    atoms = bulk("Ar", "fcc", a=3.2)  # twelve neighbours where the clusters have four
    atoms.calc = Calculator(run / "run")
    assert atoms.calc.get_extrapolation(atoms).max() > 1.5


def test_statistics_survive_the_file(run, tmp_path):
    potential = of_file(run)
    assert potential.domain is not None
    again, _ = load_model(save_model(potential, tmp_path / "copy.safetensors"))
    assert again.domain is not None
    for name, values in potential.domain.tensors().items():
        assert torch.equal(values, again.domain.tensors()[name])


def test_dynamics_stop_at_the_edge(run):
    atoms = read(run / "clusters.extxyz")
    calculator = Calculator(run / "run")
    run_md(atoms, calculator, MDSettings(steps=2, guards=Guards(max_extrapolation=50.0)))
    atoms.positions *= 0.4
    guards = Guards(max_force=1e9, min_distance=0.01, min_covalent=0.01, max_extrapolation=1.0)
    with pytest.raises(SimulationError, match="outside of the training data"):
        run_md(atoms, calculator, MDSettings(steps=2, guards=guards))


def test_predictions_hold_the_distance(run):
    frames = load_frames(run / "clusters.extxyz", keep_atoms=True).frames[:3]
    potential = of_file(run).double()
    with_distance = evaluated(potential, frames, extrapolation=True)
    assert all(results["extrapolation"].shape == (5,) for results in with_distance)
    potential.domain = None
    with pytest.raises(ConfigError, match="no statistics"):
        evaluated(potential, frames, extrapolation=True)


def test_the_edge_is_calibrated_on_atoms_that_made_no_statistics():
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(6, 6, generator=generator, dtype=torch.float64)

    def draw(count):
        return torch.randn(count, 6, generator=generator, dtype=torch.float64) @ mixing + 3.0

    species = torch.zeros(4000, dtype=torch.int64)
    domain = fit_domain([(draw(4000), species)], elements=2)
    assert domain is not None
    fresh = domain.measure(draw(4000), species)
    assert float((fresh > 1).double().mean()) < 0.002
    away = domain.measure(draw(100) + 20 * mixing[0], species[:100])
    assert float(away.min()) > 1
    assert np.isinf(domain.measure(draw(1), torch.ones(1, dtype=torch.int64)).item())


def test_elements_with_few_atoms_have_no_statistics():
    few = torch.randn(FEWEST - 1, 3)
    domain = fit_domain([(few, torch.zeros(FEWEST - 1, dtype=torch.int64))], elements=1)
    assert domain is not None
    assert domain.measure(few[:1], torch.zeros(1, dtype=torch.int64)).isinf().all()
