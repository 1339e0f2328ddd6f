"""The models in the package: small, described, and as good as they say."""

import json
from pathlib import Path

import pytest
from ase.build import molecule as named_molecule

import cliffordstf
from cliffordstf import datasets
from cliffordstf.data.dataset import BatchPlan, Dataset
from cliffordstf.data.readers import read_frames
from cliffordstf.data.structure import as_structure
from cliffordstf.errors import ModelFileError
from cliffordstf.model.ensemble import Ensemble
from cliffordstf.model.shipped import open_model, shipped_info, shipped_models
from cliffordstf.train.evaluate import evaluate
from cliffordstf.train.metrics import compute_metrics
from tests.equivariance import check_equivariance, of_potential

ROOT = Path(__file__).parents[2]


def test_they_are_small_and_say_where_they_come_from():
    pairs = {f"rmd17-{molecule}{second}" for molecule in ("aspirin", "ethanol") for second in ("", "-2")}
    assert set(shipped_models()) == {"ethanol-gfn2", *pairs}
    for name, path in shipped_models().items():
        assert path.stat().st_size < 1_000_000, name
    for name, info in shipped_info().items():
        assert info.provenance["level_of_theory"], name
        assert info.provenance["errors"]["test"]["force_mae_mev_per_a"] > 0, name
        assert not info.provenance["commit"].endswith("+"), name


def test_the_calculator_works_before_any_training():
    atoms = named_molecule("CH3CH2OH")
    atoms.calc = cliffordstf.Calculator("ethanol-gfn2")
    assert atoms.get_forces().shape == (9, 3)
    assert isinstance(cliffordstf.load("ethanol-gfn2"), cliffordstf.Potential)


def measured(name: str, frames) -> dict:
    potential, info = open_model(name)
    evaluation = evaluate(potential, Dataset(frames, potential.cutoff), BatchPlan(50))
    return {"found": compute_metrics(evaluation), "stated": info.provenance["errors"]["test"]}


def test_the_gfn2_model_is_as_good_as_it_says():
    frames, _ = read_frames(datasets.path("ethanol_gfn2"))
    errors = measured("ethanol-gfn2", frames[450:])
    assert errors["found"]["force_mae_mev_per_a"] == pytest.approx(errors["stated"]["force_mae_mev_per_a"], rel=1e-3)
    assert errors["found"]["force_cosine"] > 0.99


@pytest.mark.parametrize("second", ["", "-2"])
@pytest.mark.parametrize(("molecule", "bound"), [("aspirin", 10), ("ethanol", 5)])
def test_the_rmd17_models_are_as_good_as_they_say(real_data, molecule, bound, second):
    frames, _ = read_frames(real_data / "rmd17" / f"rmd17_{molecule}_test_01.npz")
    errors = measured(f"rmd17-{molecule}{second}", frames)
    for name in ("force_mae_mev_per_a", "energy_mae_mev"):
        assert errors["found"][name] == pytest.approx(errors["stated"][name], rel=1e-3)
    assert errors["found"]["force_mae_mev_per_a"] < bound


@pytest.mark.parametrize(("molecule", "forces", "energy"), [("aspirin", 6.6, 2.2), ("ethanol", 2.1, 0.4)])
def test_the_mean_of_two_rmd17_models_is_better_than_what_mace_has_published(real_data, molecule, forces, energy):
    frames, _ = read_frames(real_data / "rmd17" / f"rmd17_{molecule}_test_01.npz")
    pair = Ensemble([cliffordstf.load(f"rmd17-{molecule}"), cliffordstf.load(f"rmd17-{molecule}-2")])
    found = compute_metrics(evaluate(pair, Dataset(frames, pair.cutoff), BatchPlan(50)))
    assert found["force_mae_mev_per_a"] < forces
    assert found["energy_mae_mev"] < energy
    result = ROOT / "results" / "rmd17" / f"{molecule}-950-default-small-steps-92min-seed0-x2.json"
    stated = json.loads(result.read_text(encoding="utf-8"))["metrics"]
    assert found["force_mae_mev_per_a"] == pytest.approx(stated["force_mae_mev_per_a"], rel=1e-3)


def test_a_shipped_model_has_every_symmetry():
    atoms = named_molecule("CH3CH2OH")
    atoms.rattle(0.05, seed=1)
    check_equivariance(*of_potential(cliffordstf.load("ethanol-gfn2").double(), as_structure(atoms)), tolerance=1e-9)


def test_a_wrong_name_is_one_clear_error():
    with pytest.raises(ModelFileError, match=r"did you mean 'ethanol-gfn2'\?"):
        cliffordstf.load("ethanol-gfn1")
