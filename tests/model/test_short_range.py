"""Repulsion below the distances of the data: in every code path, smooth, and nothing beyond."""

import numpy as np
import pytest
import torch

import cliffordstf
from cliffordstf.algebra.repulsion import COULOMB, floored, repulsion, switch
from cliffordstf.data.structure import Structure
from cliffordstf.engine.traced import batch_tensors, program_state, trace
from cliffordstf.errors import ConfigError
from cliffordstf.kernels import kernel_name
from cliffordstf.model.ensemble import Ensemble
from cliffordstf.model.file import load_model, save_model
from cliffordstf.train.config import load_config
from cliffordstf.train.setup import prepare
from cliffordstf.verify.structures import random_cluster, triclinic_crystal

ELEMENTS = (1, 6, 8)
DISTANCES = {"H-H": 0.7, "H-O": 0.9, "H-C": 1.0, "C-O": 1.2, "C-C": 1.3, "O-O": 1.25}
KINDS = [("default/small", {}), ("default", {}), ("paper/full", {"forces": "conservative"}), ("paper/full", {})]


def potential(name: str = "default/small", **options) -> cliffordstf.Potential:
    torch.manual_seed(0)
    options = {"channels": 8, "repulsion": "zbl", "repulsion_distances": DISTANCES, **options}
    return cliffordstf.build(name, elements=ELEMENTS, seed=1, energy_scale=30.0, **options).double()


def dimer(first: int, second: int, distance: float) -> Structure:
    return Structure([first, second], [[0, 0, 0], [0.6 * distance, 0, 0.8 * distance]])


@pytest.mark.parametrize("pair", [(1, 1), (1, 8), (6, 6), (8, 6)])
@pytest.mark.parametrize("name", ["default/small", "paper/full"])
def test_dimers_repel_below_the_data_whatever_the_network_says(name, pair):
    model = potential(name, **({"forces": "conservative"} if name == "paper/full" else {}))
    outer = float(model.short_range.outer[ELEMENTS.index(pair[0]), ELEMENTS.index(pair[1])])
    distances = np.linspace(0.05, 0.75 * outer, 40)
    energies = np.array([float(model.predict(dimer(*pair, d)).energy) for d in distances])
    assert (np.diff(energies) < 0).all()
    assert energies[0] > 50
    assert float(model.predict(dimer(*pair, 0.3)).forces[1] @ torch.tensor([0.6, 0, 0.8], dtype=torch.float64)) > 10


@pytest.mark.parametrize(("name", "options"), KINDS)
def test_nothing_changes_beyond_the_distances(name, options):
    structure = random_cluster(ELEMENTS, atoms=8, seed=3, spacing=2.0)
    with_it = potential(name, **options).predict(structure)
    without = potential(name, **options, repulsion="none").predict(structure)
    assert torch.equal(with_it.energy, without.energy)
    assert torch.equal(with_it.forces, without.forces)


def close_pairs() -> list[Structure]:
    random = np.random.default_rng(0)
    molecule = Structure([8, 1, 1, 6], [[0, 0, 0], [0, 0.1, 0.62], [0, 0.85, -0.1], [0.9, 0.3, 0.2]])
    crystal = triclinic_crystal(ELEMENTS)
    squeezed = Structure(crystal.numbers, crystal.positions * 0.5, crystal.cell * 0.5, True)
    noisy = Structure(
        squeezed.numbers, squeezed.positions + 0.05 * random.normal(size=squeezed.positions.shape), squeezed.cell, True
    )
    return [molecule, noisy]


def energy_of(model: cliffordstf.Potential, structure: Structure, strain: np.ndarray, shift: np.ndarray) -> float:
    moved = Structure(structure.numbers, structure.positions @ strain + shift, structure.cell @ strain, structure.pbc)
    return float(model.predict(moved).energy)


@pytest.mark.parametrize(("name", "options"), KINDS[:3])
def test_forces_and_stress_are_derivatives_of_the_energy(name, options):
    model, step = potential(name, **options), 1e-5
    for structure in close_pairs():
        found = model.predict(structure)
        for atom in range(len(structure)):
            for axis in range(3):
                shift = np.zeros_like(structure.positions)
                shift[atom, axis] = step
                above, below = (energy_of(model, structure, np.eye(3), sign * shift) for sign in (1, -1))
                numerical = -(above - below) / (2 * step)
                assert float(found.forces[atom, axis]) == pytest.approx(numerical, rel=1e-5, abs=1e-5)
    shear = np.zeros((3, 3))
    shear[0, 1] = shear[1, 0] = step
    above, below = (energy_of(model, structure, np.eye(3) + sign * shear, np.zeros(3)) for sign in (1, -1))
    volume = abs(np.linalg.det(structure.cell))
    assert float(found.stress[0, 0, 1]) == pytest.approx((above - below) / (4 * step * volume), rel=1e-5, abs=1e-6)


def test_every_way_of_evaluation_agrees():
    """Written-out kernels, autograd for training, direct training, energies alone, ensembles, saved files."""
    model = potential("default", channels=8)
    assert kernel_name(torch.device("cpu"), torch.float64) == "compiled"
    batch = model.batch(close_pairs())
    plain = model(batch, stress=True)
    trained = model(batch, stress=True, train=True)
    for name in ("energy", "atom_energies", "forces", "stress"):
        torch.testing.assert_close(getattr(plain, name), getattr(trained, name), rtol=1e-9, atol=1e-9, equal_nan=True)
    torch.testing.assert_close(model(batch, forces=False).energy, plain.energy, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(Ensemble([model, model])(batch).forces, plain.forces)
    leaf = batch.positions.clone().requires_grad_(True)
    by_autograd = torch.autograd.grad(
        model(batch.with_geometry(leaf, batch.cell), forces=False, train=True).energy.sum(), leaf
    )[0]
    torch.testing.assert_close(-by_autograd, plain.forces, rtol=1e-8, atol=1e-8)


def test_training_gradients_see_the_floor(tmp_path):
    """The gradient of a loss on forces of close pairs against finite differences in a weight."""
    model = potential("default", channels=8)
    batch = model.batch(close_pairs()[0])
    weight = model.model.embedding.weight

    def loss() -> torch.Tensor:
        return (model(batch, train=True).forces ** 2).sum()

    loss().backward()
    exact, step = float(weight.grad[0, 0]), 1e-6
    with torch.no_grad():
        weight[0, 0] += step
        above = float(loss())
        weight[0, 0] -= 2 * step
        below = float(loss())
        weight[0, 0] += step
    assert exact == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-6)
    restored, _ = load_model(save_model(model, tmp_path / "m.safetensors"))
    torch.testing.assert_close(restored.predict(close_pairs()[0]).forces, model.predict(close_pairs()[0]).forces)


def test_hessians_include_the_repulsion():
    model, structure, step = potential("default", channels=8), close_pairs()[0], 1e-4
    hessian = model.hessian(structure)
    shift = np.zeros((4, 3))
    shift[1, 2] = step
    above, below = (
        model.predict(Structure(structure.numbers, structure.positions + sign * shift)).forces.numpy()
        for sign in (1, -1)
    )
    np.testing.assert_allclose(hessian[1, 2], -(above - below) / (2 * step), rtol=1e-4, atol=1e-2)
    assert np.abs(hessian - potential("default", channels=8, repulsion="none").hessian(structure)).max() > 10


def test_direct_forces_get_the_repulsion():
    model = potential("paper/full")
    close = model.predict(dimer(8, 8, 0.4)).forces
    energy, slope = repulsion(*(torch.tensor([v], dtype=torch.float64) for v in (0.4, 8.0, 8.0, 1.25)))
    assert float(close[1, 2]) == pytest.approx(-0.8 * float(slope), rel=0.05)
    assert float(energy) > 100


def test_the_switch_and_the_floor_are_smooth():
    outer = torch.full((2001,), 1.0, dtype=torch.float64)
    distances = torch.linspace(0.5, 1.2, 2001, dtype=torch.float64)
    for values, slopes in (switch(distances, outer), floored(distances, outer)):
        numerical = torch.gradient(values, spacing=(distances,))[0]
        torch.testing.assert_close(numerical[1:-1], slopes[1:-1], atol=2e-4, rtol=0)
        second = torch.gradient(torch.gradient(slopes, spacing=(distances,))[0], spacing=(distances,))[0]
        assert float(second.abs().max()) < 1e4  # the second derivative has no jump
    one = torch.ones(1, dtype=torch.float64)
    near = repulsion(0.001 * one, 8 * one, one, one)[0]
    assert float(near) == pytest.approx(8 * COULOMB / 0.001, rel=0.02)


def test_distances_come_from_the_training_structures(clusters):
    config = load_config(
        None, [f"data.train={clusters}", "model.preset=default/small", "model.channels=4", "model.repulsion=zbl"]
    )
    setup = prepare(config)
    (distance,) = setup.potential.model.config.repulsion_distances.values()
    shortest = min(
        np.linalg.norm(f.structure.positions[:, None] - f.structure.positions, axis=2)[~np.eye(5, dtype=bool)].min()
        for f in setup.splits.train
    )
    assert 0 <= shortest - distance < 1e-4
    assert any(choice.option == "model.repulsion_distances" for choice in setup.choices)


def test_bad_distances_are_one_clear_error():
    with pytest.raises(ConfigError, match="an entry is a pair of elements and a distance in Å"):
        potential(repulsion_distances={"HO": 0.9})
    with pytest.raises(ConfigError, match="'Xx' is not a chemical symbol"):
        potential(repulsion_distances={"H-Xx": 0.9})
    with pytest.raises(ConfigError, match="pooling=mean cannot hold"):
        potential(pooling="mean")
    with pytest.raises(ConfigError, match="repulsion' is 'zlb', but it must be 'none' or 'zbl'"):
        potential(repulsion="zlb")


def test_traced_graphs_include_the_repulsion():
    """What torch.compile and torch.export get: no branch on the distances, so one graph serves close and far pairs."""
    model = potential("default", channels=16)
    close, far = close_pairs()[0], random_cluster(ELEMENTS, atoms=4, seed=3, spacing=2.0)
    graph = trace(model, model.batch(far))
    for structure in (close, far):
        batch = model.batch(structure)
        energy, _, forces = graph(program_state(model), batch_tensors(batch))
        plain = model.predict(structure)
        torch.testing.assert_close(energy, plain.energy, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(forces, plain.forces, rtol=1e-8, atol=1e-8)
