from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import cliffordstf
from cliffordstf.data.baseline import Baseline, fit_baseline
from cliffordstf.data.dataset import BatchPlan, Dataset
from cliffordstf.data.frame import Frame
from cliffordstf.engine.native import NativeEngine
from cliffordstf.train.evaluate import evaluate
from cliffordstf.train.metrics import compute_metrics, force_cosines
from cliffordstf.verify.structures import random_cluster, triclinic_crystal


@pytest.fixture
def potential():
    # Forces of some 0.5 eV/Å: those of an untrained model on its own are too small to have a direction.
    return cliffordstf.build("default/small", elements=[1, 6, 8], seed=0, energy_scale=1000.0).double()


def exact_frames(potential, count: int = 4) -> list[Frame]:
    frames = []
    for seed in range(count):
        structure = random_cluster((1, 6, 8), atoms=5 + seed % 2, seed=seed)
        prediction = potential.predict(structure)
        frames.append(Frame(structure, float(prediction.energy), prediction.forces.numpy()))
    return frames


def test_exact_labels_give_zero_errors(potential):
    data = Dataset(exact_frames(potential), potential.cutoff)
    metrics = compute_metrics(evaluate(potential, data, BatchPlan(3)))
    assert metrics["energy_mae_mev"] == pytest.approx(0, abs=1e-9)
    assert metrics["force_mae_mev_per_a"] == pytest.approx(0, abs=1e-9)
    assert metrics["force_cosine"] == pytest.approx(1)
    assert metrics["energy_and_forces_within_threshold"] == 1.0
    assert metrics["stress_mae_mev_per_a3"] is None


def test_forces_that_nobody_can_judge_are_not_computed(potential, monkeypatch):
    frames = exact_frames(potential)
    labelled = evaluate(potential, Dataset(frames, potential.cutoff), BatchPlan(3))
    wanted = []
    run = NativeEngine.run

    def listen(self, wrapped, batch, what):
        wanted.append(what.forces or what.stress)
        return run(self, wrapped, batch, what)

    monkeypatch.setattr(NativeEngine, "run", listen)
    bare = [replace(frame, forces=None) for frame in frames]
    found = evaluate(potential, Dataset(bare, potential.cutoff), BatchPlan(3))
    assert wanted
    assert not any(wanted)
    assert np.isnan(found.forces).all()
    assert found.forces.shape == labelled.forces.shape
    assert found.energy == pytest.approx(labelled.energy, abs=1e-12)
    assert compute_metrics(found)["force_mae_mev_per_a"] is None


def test_known_errors_come_out_in_milli_units(potential):
    frames = [Frame(f.structure, f.energy + 0.05, f.forces + 0.01) for f in exact_frames(potential)]
    metrics = compute_metrics(evaluate(potential, Dataset(frames, potential.cutoff), BatchPlan(2)))
    assert metrics["energy_mae_mev"] == pytest.approx(50)
    assert metrics["energy_rmse_mev"] == pytest.approx(50)
    assert metrics["force_mae_mev_per_a"] == pytest.approx(10)
    assert metrics["force_rmse_mev_per_a"] == pytest.approx(10)
    assert metrics["energy_within_threshold"] == 0.0
    atoms = sum(len(f.structure) for f in frames)
    assert sum(element["n_atoms"] for element in metrics["per_element"].values()) == atoms
    assert sum(part["n_atoms"] for part in metrics["force_cosine_by_magnitude"]) == atoms


def test_errors_by_tag(potential):
    frames = [replace(f, forces=f.forces.copy(), tags=np.arange(len(f.structure)) % 2) for f in exact_frames(potential)]
    for frame in frames:
        frame.forces[frame.tags == 1] += 0.02
    metrics = compute_metrics(evaluate(potential, Dataset(frames, potential.cutoff), BatchPlan(2)))
    errors = {tag: row["force_mae_mev_per_a"] for tag, row in metrics["per_tag"].items()}
    assert errors == pytest.approx({"0": 0, "1": 20}, abs=1e-9)
    frames[0] = replace(frames[0], tags=None)
    assert compute_metrics(evaluate(potential, Dataset(frames, potential.cutoff), BatchPlan(2)))["per_tag"] == {}


def test_baselines(potential):
    frames = exact_frames(potential, 6)
    data = Dataset(frames, potential.cutoff)
    metrics = compute_metrics(evaluate(potential, data, BatchPlan(2)))
    expected = np.mean(np.abs(np.concatenate([frame.forces for frame in frames]))) * 1000
    assert metrics["baseline_force_mae_mev_per_a"] == pytest.approx(expected)
    same = [frame for frame in frames if len(frame.structure) == 5]
    energies = np.array([frame.energy for frame in same])
    np.testing.assert_allclose(fit_baseline(same)(same), energies.mean())
    other = evaluate(potential, data, BatchPlan(2), Baseline({1: 1.0, 6: 2.0, 8: 3.0}))
    expected = [sum({1: 1.0, 6: 2.0, 8: 3.0}[n] for n in frame.structure.numbers.tolist()) for frame in frames]
    np.testing.assert_allclose(other.baseline_energy, expected)


def test_the_baseline_of_data_that_a_fit_would_reproduce(potential):
    frames = exact_frames(potential, 2)
    assert len({len(frame.structure) for frame in frames}) == 2
    per_atom = [frame.energy / len(frame.structure) for frame in frames]
    zero = evaluate(potential, Dataset(frames, potential.cutoff), BatchPlan(2)).baseline_energy
    np.testing.assert_allclose(zero, [np.mean(per_atom) * len(frame.structure) for frame in frames])


def test_cosine_of_opposite_and_missing_forces(potential):
    frame = exact_frames(potential, 1)[0]
    labels = -frame.forces
    labels[0] = np.nan
    evaluation = evaluate(potential, Dataset([Frame(frame.structure, None, labels)], 5.0), BatchPlan(1))
    cosines = force_cosines(evaluation)
    assert np.isnan(cosines[0])
    np.testing.assert_allclose(cosines[1:], -1)
    assert compute_metrics(evaluation)["energy_mae_mev"] is None


def test_predictions_that_are_not_numbers_spoil_the_metrics(potential):
    evaluation = evaluate(potential, Dataset(exact_frames(potential), potential.cutoff), BatchPlan(3))
    evaluation.energy[1] = np.nan
    evaluation.forces[:6] = np.nan
    metrics = compute_metrics(evaluation)
    for name in ("energy_mae_mev", "force_mae_mev_per_a", "force_cosine"):
        assert np.isnan(metrics[name])
    assert metrics["energy_within_threshold"] == 0.75


def test_fixed_atoms_do_not_keep_a_structure_from_being_within_the_thresholds(potential):
    """Their forces are not labelled; those of the free atoms decide."""
    frames = exact_frames(potential, 3)
    labels = [frame.forces.copy() for frame in frames]
    labels[0][0] = np.nan
    labels[1][0] = np.nan
    labels[1][1] += 0.05  # eV/Å, above the threshold
    labels[2][:] = np.nan
    masked = [Frame(frame.structure, frame.energy, forces) for frame, forces in zip(frames, labels, strict=True)]
    metrics = compute_metrics(evaluate(potential, Dataset(masked, potential.cutoff), BatchPlan(3)))
    assert metrics["energy_within_threshold"] == 1.0
    assert metrics["energy_and_forces_within_threshold"] == 0.5


def test_stress_is_evaluated_where_it_is_labelled(potential):
    crystal = triclinic_crystal((1, 6, 8))
    stress = potential.predict(crystal).stress[0].numpy()
    frames = [Frame(crystal, stress=stress + 0.002), Frame(random_cluster((1, 6, 8)), energy=1.0)]
    metrics = compute_metrics(evaluate(potential, Dataset(frames, 5.0), BatchPlan(2)))
    assert metrics["stress_mae_mev_per_a3"] == pytest.approx(2.0)


class Unsteady(nn.Module):
    """Dropout, running statistics and a part that is always evaluated, in front of a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.dropout, self.norm, self.frozen = nn.Dropout(0.5), nn.BatchNorm1d(1), nn.Dropout(0.5).eval()

    def forward(self, *arguments):
        output = self.model(*arguments)
        energies = self.frozen(self.norm(self.dropout(output.atom_energies[:, None])))[:, 0]
        return replace(output, atom_energies=energies)


def test_evaluation_has_no_dropout_and_leaves_statistics_and_modes_alone(potential):
    data = Dataset(exact_frames(potential), potential.cutoff)
    potential.model = Unsteady(potential.model).double()
    potential.train()
    potential.model.frozen.eval()
    before = potential.model.norm.running_mean.clone()
    first, second = (evaluate(potential, data, BatchPlan(3)) for _ in range(2))
    np.testing.assert_array_equal(first.energy, second.energy)
    assert torch.equal(potential.model.norm.running_mean, before)
    assert potential.training
    assert potential.model.norm.training
    assert not potential.model.frozen.training
