from dataclasses import replace

import numpy as np
import pytest
import torch

import cliffordstf
from cliffordstf.data.dataset import Dataset
from cliffordstf.data.frame import Frame
from cliffordstf.train.loss import LossConfig, TermConfig, combine, loss_sums
from cliffordstf.verify.structures import random_cluster, triclinic_crystal

ONE = torch.ones((), dtype=torch.float64)


@pytest.fixture
def potential():
    return cliffordstf.build("default/small", elements=[1, 6, 8], seed=0).double()


def labelled(energy=1.0, forces=True, stress=False) -> Frame:
    structure = triclinic_crystal((1, 6, 8)) if stress else random_cluster((1, 6, 8), atoms=5)
    rng = np.random.default_rng(0)
    return Frame(
        structure,
        energy=energy,
        forces=rng.normal(size=(len(structure), 3)) if forces else None,
        stress=np.eye(3) * 0.01 if stress else None,
    )


def total(potential, frames, config=None, train=True):
    config = config or LossConfig(energy=TermConfig(), forces=TermConfig(), stress=TermConfig())
    data = Dataset(frames, 5.0).batch(range(len(frames)))
    prediction = potential(data.batch, stress=True, train=train)
    sums = loss_sums(config, prediction, data, ONE)
    return combine(config, sums, sums.counts, 0.0), prediction, data


def test_mse_is_what_it_says(potential):
    loss, prediction, data = total(potential, [labelled()])
    energy = ((prediction.energy - data.energy) ** 2 / 5).mean()
    forces = ((prediction.forces - data.forces) ** 2).mean()
    torch.testing.assert_close(loss, energy + forces)


@pytest.mark.parametrize("kind", ["mse", "l1", "huber", "l2"])
def test_gradients_are_numbers_even_where_the_error_vanishes(potential, kind):
    frame = labelled(stress=True)
    prediction = potential.predict(frame.structure)
    exact = Frame(frame.structure, float(prediction.energy), prediction.forces.numpy(), prediction.stress[0].numpy())
    term = TermConfig(kind=kind)
    loss, _, _ = total(potential, [exact, frame], LossConfig(energy=term, forces=term, stress=term))
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in potential.parameters())


def test_missing_labels_are_masked_not_ignored(potential):
    """Energy-only, forces-only, a NaN force, no stress: the loss is that of the labels that are there."""
    complete = labelled()
    partial_forces = complete.forces.copy()
    partial_forces[2] = np.nan
    frames = [
        Frame(complete.structure, energy=1.0),
        Frame(complete.structure, forces=complete.forces),
        Frame(complete.structure, energy=float("nan"), forces=partial_forces),
        labelled(stress=True),
    ]
    loss, prediction, data = total(potential, frames)
    assert torch.isfinite(loss)
    known = torch.isfinite(data.forces).all(dim=1)
    assert known.sum() == 5 + 4 + 4
    forces = ((prediction.forces - data.forces)[known] ** 2).mean()
    energy_error = (prediction.energy - data.energy)[[0, 3]]
    energy = (energy_error**2 / torch.tensor([5.0, 4.0])).mean()
    volume = data.batch.volumes()[3] / 4
    stress = (((prediction.stress - data.stress)[3] * volume) ** 2).mean()
    torch.testing.assert_close(loss, energy + forces + stress)
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in potential.parameters())


def test_a_prediction_that_is_not_a_number_shows_in_the_loss(potential):
    with torch.no_grad():
        next(potential.parameters()).fill_(torch.nan)
    assert torch.isnan(total(potential, [labelled()])[0])


def test_weights_move_from_first_to_last():
    term = TermConfig(weight=1.0, final_weight=100.0)
    assert [term.weight_at(x) for x in (0.0, 0.5, 1.0)] == pytest.approx([1, 10, 100])
    assert TermConfig(weight=0.0, final_weight=2.0).weight_at(0.5) == 1.0
    assert TermConfig(weight=3.0).weight_at(0.7) == 3.0


@pytest.mark.parametrize(("per", "divisor"), [("structure", 1.0), ("root-atom", 5**0.5), ("atom", 5.0)])
def test_energy_normalisation(potential, per, divisor):
    config = LossConfig(
        energy_per=per, energy=TermConfig(), forces=TermConfig(weight=0.0), stress=TermConfig(weight=0.0)
    )
    loss, prediction, data = total(potential, [labelled()], config)
    torch.testing.assert_close(loss, ((prediction.energy - data.energy) / divisor).square().sum())


def _two_structures():
    model = cliffordstf.build("default/small", elements=[1, 6, 8], seed=0, channels=4).double()
    data = Dataset([labelled(stress=True), replace(labelled(2.0, stress=True), energy=-1.0)], 5.0).batch([0, 1])
    return model(data.batch, stress=True), data


def test_weights_of_structures_scale_their_terms_and_not_the_count():
    prediction, labels = _two_structures()
    scale = torch.ones((), dtype=torch.float64)
    plain = loss_sums(LossConfig(), prediction, labels, scale)
    weights = torch.tensor([[2.0, 0.0, 1.0], [1.0, 3.0, 0.0]], dtype=torch.float64)
    weighted = loss_sums(LossConfig(), prediction, replace(labels, weights=weights), scale)
    only = [torch.eye(2, dtype=torch.float64)[:, [index] * 3] for index in (0, 1)]
    first, second = (loss_sums(LossConfig(), prediction, replace(labels, weights=one), scale) for one in only)
    expected = weights.T[:, 0] * first.sums + weights.T[:, 1] * second.sums
    torch.testing.assert_close(weighted.sums, expected)
    torch.testing.assert_close(first.sums + second.sums, plain.sums)
    assert torch.equal(weighted.counts, plain.counts)


def test_stress_counts_by_component():
    prediction, labels = _two_structures()
    scale = torch.ones((), dtype=torch.float64)
    stress = labels.stress.clone()
    stress[0, 0, 1] = stress[0, 1, 0] = float("nan")
    masked = loss_sums(LossConfig(), prediction, replace(labels, stress=stress), scale)
    whole = loss_sums(LossConfig(), prediction, labels, scale)
    assert masked.counts.tolist()[2] == whole.counts.tolist()[2] - 2
    assert 0 < float(masked.sums[2]) < float(whole.sums[2])
    norms = LossConfig(stress={"kind": "l2"})
    assert loss_sums(norms, prediction, replace(labels, stress=stress), scale).counts[2] == 1
