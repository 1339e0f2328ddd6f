import doctest
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ase import units

from cliffordstf.data.frame import Frame
from cliffordstf.data.structure import FloatArray, Structure
from cliffordstf.train import metrics as module
from cliffordstf.train.evaluation import Evaluation
from cliffordstf.train.metrics import COSINE_MIN_FORCE, compute_metrics, has_direction, select_structures

SIZES = (3, 1, 4, 2)


@pytest.fixture
def evaluation() -> Evaluation:
    """Four structures of 3, 1, 4 and 2 atoms, labelled with everything, forces of about 1 eV/Å."""
    rng = np.random.default_rng(5)
    frames = [
        Frame(
            Structure(np.array([1, 6, 8, 6][:size]), rng.normal(size=(size, 3)), np.eye(3) * 9, [True] * 3, f"{index}")
        )
        for index, size in enumerate(SIZES)
    ]
    forces, stress, energy = rng.normal(size=(10, 3)), 0.1 * rng.normal(size=(4, 3, 3)), rng.normal(size=4)
    return Evaluation(
        frames=frames,
        energy=energy + 0.1 * rng.normal(size=4),
        energy_label=energy,
        forces=forces + 0.1 * rng.normal(size=(10, 3)),
        force_labels=forces,
        stress=stress + 0.01 * rng.normal(size=(4, 3, 3)),
        stress_labels=stress,
        structure_of_atom=np.repeat(np.arange(4), SIZES),
        numbers=np.concatenate([frame.structure.numbers for frame in frames]),
        baseline_energy=np.full(4, 0.3),
        reference_energy=np.arange(4.0),
    )


def cosine(first: FloatArray, second: FloatArray) -> float:
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


def labelled(evaluation: Evaluation, labels: list[str | None]) -> Evaluation:
    frames = [replace(frame, config_type=label) for frame, label in zip(evaluation.frames, labels, strict=True)]
    return replace(evaluation, frames=frames)


def test_atoms_without_a_true_force_have_no_direction(evaluation: Evaluation) -> None:
    evaluation.force_labels[0] = 0.0
    evaluation.force_labels[4] = [0.0, 0.0, 0.9 * COSINE_MIN_FORCE]
    evaluation.force_labels[5] = [COSINE_MIN_FORCE, 0.0, 0.0]
    evaluation.force_labels[6] = np.nan
    used = [1, 2, 3, 5, 7, 8, 9]
    found = compute_metrics(evaluation)
    assert np.flatnonzero(has_direction(evaluation)).tolist() == used
    expected = np.mean([cosine(evaluation.forces[atom], evaluation.force_labels[atom]) for atom in used])
    assert found["force_cosine"] == pytest.approx(expected)
    assert (found["force_cosine_atoms"], found["force_cosine_left_out"]) == (7, 2)
    assert found["thresholds"]["cosine_min_force_ev_per_a"] == COSINE_MIN_FORCE
    elements = found["per_element"].values()
    assert sum(row["force_cosine_atoms"] for row in elements) == 7
    assert sum(row["force_cosine_left_out"] for row in elements) == 2
    first, *others = found["force_cosine_by_magnitude"]
    assert (first["to_ev_per_a"], first["n_atoms"], first["force_cosine"]) == (COSINE_MIN_FORCE, 2, None)
    assert first["force_mae_mev_per_a"] > 0
    assert others[0]["from_ev_per_a"] == COSINE_MIN_FORCE
    assert sum(row["n_atoms"] for row in others) == 7


def test_no_cosine_where_every_atom_is_left_out(evaluation: Evaluation) -> None:
    evaluation.force_labels[:] = 1e-9
    found = compute_metrics(evaluation)
    assert found["force_cosine"] is None
    assert (found["force_cosine_atoms"], found["force_cosine_left_out"]) == (0, 10)
    assert found["force_mae_mev_per_a"] > 0


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_prediction_that_is_not_finite_never_vanishes(evaluation: Evaluation, value: float) -> None:
    evaluation.forces[3] = value
    evaluation.energy[1] = value
    evaluation.stress[2, 0, 1] = value
    with np.errstate(invalid="ignore"):
        found = compute_metrics(labelled(evaluation, ["a", "b", "c", "a"]))
    for key in ("force_cosine", "force_mae_mev_per_a", "energy_rmse_mev_per_atom", "stress_mae_gpa"):
        assert not np.isfinite(found[key])
    assert np.isnan(found["per_element"]["H"]["force_cosine"])
    assert np.isfinite(found["per_element"]["C"]["force_cosine"])
    finite = {label: np.isfinite(row["force_cosine"]) for label, row in found["per_config_type"].items()}
    assert finite == {"a": True, "b": False, "c": True}
    assert not np.isfinite(found["per_config_type"]["c"]["stress_rmse_mev_per_a3"])


def test_a_bad_prediction_on_an_atom_that_is_left_out_does_not_count(evaluation: Evaluation) -> None:
    evaluation.force_labels[3] = 0.0
    evaluation.forces[3] = np.nan
    found = compute_metrics(evaluation)
    assert np.isfinite(found["force_cosine"])
    assert np.isnan(found["force_mae_mev_per_a"])


def test_stress_in_gpa_and_every_baseline(evaluation: Evaluation) -> None:
    found = compute_metrics(evaluation)
    error, label = evaluation.stress - evaluation.stress_labels, evaluation.stress_labels
    expected: dict[str, float] = {}
    for prefix, values in (("", error), ("baseline_", label)):
        mae, rmse = np.abs(values).mean(), np.sqrt((values**2).mean())
        expected |= {
            f"{prefix}stress_mae_mev_per_a3": 1000 * mae,
            f"{prefix}stress_rmse_mev_per_a3": 1000 * rmse,
            f"{prefix}stress_mae_gpa": mae / units.GPa,
            f"{prefix}stress_rmse_gpa": rmse / units.GPa,
        }
    assert {key: found[key] for key in expected} == pytest.approx(expected)
    assert found["stress_mae_gpa"] == pytest.approx(0.1602176634 * found["stress_mae_mev_per_a3"], rel=1e-6)
    per_atom = (0.3 - evaluation.energy_label) / np.array(SIZES)
    assert found["baseline_energy_rmse_mev_per_atom"] == pytest.approx(1000 * np.sqrt((per_atom**2).mean()))


def test_only_the_known_components_of_a_stress_count(evaluation: Evaluation) -> None:
    diagonal = np.eye(3, dtype=bool)
    evaluation.stress_labels[:, ~diagonal] = np.nan
    evaluation.stress[:, ~diagonal] += 99.0
    evaluation.stress_labels[1] = np.nan
    known = [0, 2, 3]
    error = (evaluation.stress - evaluation.stress_labels)[known][:, diagonal]
    found = compute_metrics(evaluation)
    assert found["stress_mae_mev_per_a3"] == pytest.approx(1000 * np.abs(error).mean())
    assert found["stress_rmse_gpa"] == pytest.approx(np.sqrt((error**2).mean()) / units.GPa)
    label = evaluation.stress_labels[known][:, diagonal]
    assert found["baseline_stress_mae_mev_per_a3"] == pytest.approx(1000 * np.abs(label).mean())


def test_errors_by_config_type_are_those_of_the_structures_alone(evaluation: Evaluation) -> None:
    found = compute_metrics(labelled(evaluation, ["slab", None, "bulk", "slab"]))["per_config_type"]
    assert list(found) == ["Default", "bulk", "slab"]
    members = {"Default": [1], "bulk": [2], "slab": [0, 3]}
    for label, row in found.items():
        alone = compute_metrics(select_structures(evaluation, np.array(members[label])))
        assert {key: alone[key] for key in row} == row
        assert row["n_structures"] == len(members[label])
        assert row["n_atoms"] == sum(SIZES[index] for index in members[label])
    keys = {
        f"{prefix}{quantity}"
        for prefix in ("", "baseline_")
        for quantity in ("energy_mae_mev", "energy_rmse_mev_per_atom", "force_rmse_mev_per_a", "stress_rmse_gpa")
    }
    assert keys | {"force_cosine", "force_cosine_atoms"} <= set(found["bulk"])
    assert compute_metrics(evaluation)["per_config_type"] == {}


def test_selected_structures_keep_their_own_atoms_in_any_order(evaluation: Evaluation) -> None:
    chosen = select_structures(evaluation, np.array([3, 0]))
    assert [frame.structure.name for frame in chosen.frames] == ["3", "0"]
    assert chosen.structure_of_atom.tolist() == [0, 0, 1, 1, 1]
    for part, whole in ((chosen.forces, evaluation.forces), (chosen.force_labels, evaluation.force_labels)):
        np.testing.assert_array_equal(part, whole[[8, 9, 0, 1, 2]])
    np.testing.assert_array_equal(chosen.stress_labels, evaluation.stress_labels[[3, 0]])
    np.testing.assert_array_equal(chosen.reference_energy, [3.0, 0.0])
    assert chosen.numbers.tolist() == [1, 6, 1, 6, 8]
    assert select_structures(replace(evaluation, reference_energy=None), np.array([1])).reference_energy is None


def test_the_whole_is_the_weighted_mean_of_its_config_types(evaluation: Evaluation) -> None:
    found = compute_metrics(labelled(evaluation, ["a", "b", "a", "b"]))
    rows: list[dict[str, Any]] = list(found["per_config_type"].values())
    weighted = sum(row["n_atoms"] * row["force_mae_mev_per_a"] for row in rows) / len(evaluation.numbers)
    assert weighted == pytest.approx(found["force_mae_mev_per_a"])


def test_the_examples_in_the_docstrings() -> None:
    assert doctest.testmod(module) == doctest.TestResults(failed=0, attempted=8)
