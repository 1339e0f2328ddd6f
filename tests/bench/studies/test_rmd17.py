import numpy as np
import pytest
from typer.testing import CliRunner

from cliffordstf.bench.literature.published_values import RMD17_MOLECULES, rmd17, rmd17_models
from cliffordstf.bench.studies.rmd17 import rmd17_job, rmd17_table
from cliffordstf.cli.main import app
from cliffordstf.data.readers import read_frames
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.train.setup import load_splits, prepare


@pytest.fixture
def archive(tmp_path):
    """The published archive's layout with 1100 made-up frames of ethanol, in kcal/mol."""
    rng = np.random.default_rng(0)
    numbers = np.array([6, 6, 8, 1, 1, 1, 1, 1, 1])
    frame = 1.5 * np.array([[x, y, z] for x in range(3) for y in range(3) for z in range(1)], dtype=float)
    count = 1100
    (tmp_path / "npz_data").mkdir()
    (tmp_path / "splits").mkdir()
    np.savez(
        tmp_path / "npz_data" / "rmd17_ethanol.npz",
        nuclear_charges=numbers,
        coords=frame + rng.normal(0, 0.05, (count, 9, 3)),
        energies=rng.normal(-97_000, 4, count),
        forces=rng.normal(0, 20, (count, 9, 3)),
    )
    order = rng.permutation(count)
    np.savetxt(tmp_path / "splits" / "index_train_01.csv", order[:1000], fmt="%d")
    np.savetxt(tmp_path / "splits" / "index_test_01.csv", order[1000:], fmt="%d")
    return tmp_path


def test_the_official_split_is_kept_and_the_test_frames_stay_out(archive):
    frames, _ = read_frames(str(archive / "npz_data" / "rmd17_ethanol.npz"))
    official = np.loadtxt(archive / "splits" / "index_test_01.csv", dtype=int)
    splits = load_splits(rmd17_job(archive, "ethanol", train=950).config.data)
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [950, 50, 100]
    for ours, index in zip(splits.test, official, strict=True):
        np.testing.assert_array_equal(ours.structure.positions, frames[index].structure.positions)
    assert not any("also in" in warning for warning in splits.warnings)


def test_another_split_is_another_job(archive):
    for part in ("train", "test"):
        (archive / "splits" / f"index_{part}_02.csv").write_text(
            (archive / "splits" / f"index_{part}_01.csv").read_text()
        )
    first, second = (rmd17_job(archive, "ethanol", split=split) for split in (1, 2))
    assert (first.name, second.name) == ("ethanol-950-default-20min-seed0", "ethanol-950-split2-default-20min-seed0")
    assert second.config.data.test_indices.endswith("index_test_02.csv")


def test_a_budget_has_one_name_however_it_is_written(archive):
    names = {rmd17_job(archive, "ethanol", budget=text).name for text in ("20min", "1200s", "1200")}
    assert names == {"ethanol-950-default-20min-seed0"}
    assert rmd17_job(archive, "ethanol", budget="45s").name == "ethanol-950-default-45s-seed0"
    passes = rmd17_job(archive, "ethanol", overrides=("budget=null", "epochs=9"), label="nine")
    assert passes.name == "ethanol-950-nine-9passes-seed0"


def test_updates_may_take_the_place_of_a_budget(archive):
    job = rmd17_job(archive, "ethanol", steps=600)
    assert job.name == "ethanol-950-default-600steps-seed0"
    assert (job.config.budget, job.config.steps) == (None, 600)


def test_few_frames_are_all_that_a_run_sees(archive):
    splits = load_splits(rmd17_job(archive, "ethanol", train=50).config.data)
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [50, 0, 100]
    other = load_splits(rmd17_job(archive, "ethanol", train=50, seed=1).config.data)
    assert splits.train[0].energy != other.train[0].energy


def test_bad_requests_are_refused_with_one_sentence(archive):
    with pytest.raises(ConfigError, match="did you mean 'ethanol'"):
        rmd17_job(archive, "ethanal")
    with pytest.raises(ConfigError, match="between 1 and 1000"):
        rmd17_job(archive, "ethanol", train=5000)
    with pytest.raises(ConfigError, match="between 1 and 5, the official splits"):
        rmd17_job(archive, "ethanol", split=6)
    with pytest.raises(DataError, match=r"rmd17_ethanol_train_03\.npz"):
        rmd17_job(archive, "ethanol", split=3)
    with pytest.raises(DataError, match=r"rmd17_uracil_train_01\.npz"):
        rmd17_job(archive, "uracil")


def test_the_paper_protocol_is_what_the_paper_states(archive):
    config = rmd17_job(archive, "ethanol", train=900, model="paper/full", protocol="paper").config
    assert (config.optimizer.name, config.optimizer.learning_rate, config.batch_size) == ("adam", 1e-4, 32)
    assert (config.loss.forces.kind, config.loss.energy.kind, config.loss.energy_per) == ("mse", "mse", "structure")
    assert (config.data.reference, config.schedule.kind, config.epochs, config.average) == ("none", "constant", 250, 0)
    potential = prepare(config).potential
    assert float(potential.reference.scale) == pytest.approx(0.04336, rel=1e-3)
    assert not potential.reference.energies.any()
    with pytest.raises(ConfigError, match="did you mean 'paper'"):
        rmd17_job(archive, "ethanol", protocol="papers")


def test_protocols_are_never_mixed_in_a_table(archive):
    jobs = [rmd17_job(archive, "ethanol", model="mace-l1", protocol=name) for name in ("sound", "recommended")]
    assert [job.labels["protocol"] for job in jobs] == ["sound", "recommended"]
    assert [job.labels["recipe"] for job in jobs] == ["mace-l1", "mace-l1 recommended"]
    assert jobs[0].name != jobs[1].name
    metrics = {"energy_mae_mev": 1.0, "force_mae_mev_per_a": 2.0, "force_cosine": 0.999}
    baseline = {"baseline_energy_mae_mev": 140.0, "baseline_force_mae_mev_per_a": 900.0}
    run = {"budget": 1200.0, "seed": 0, "epochs": 23, "metrics": {**metrics, **baseline}}
    results = [{**job.labels, **run, "config": job.config.model_dump(mode="json")} for job in jobs]
    heads = ["mace-l1, 20 min", "mace-l1 recommended, 20 min (23 of 1500 passes)"]
    assert rmd17_table(results, 950).heads[1:3] == heads


def test_every_molecule_has_published_numbers():
    for train in (950, 50):
        for model in rmd17_models(train):
            assert all(rmd17(train, model, molecule) is not None for molecule in RMD17_MOLECULES)
    assert rmd17(950, "MACE", "aspirin") == (2.2, 6.6)
    assert rmd17(50, "NequIP", "uracil") == (7.3, 40.1)


def _result(molecule: str, force: float, seed: int = 0, recipe: str = "default", budget: float = 600.0):
    metrics = {
        "energy_mae_mev": 1.0,
        "force_mae_mev_per_a": force,
        "force_cosine": 0.999,
        "baseline_energy_mae_mev": 140.0,
        "baseline_force_mae_mev_per_a": 900.0,
    }
    return {
        "benchmark": "rmd17",
        "molecule": molecule,
        "train": 50,
        "seed": seed,
        "recipe": recipe,
        "budget": budget,
        "epochs": 300,
        "config": {"epochs": "auto"},
        "metrics": metrics,
    }


def test_the_table_shows_published_numbers_seeds_and_the_baseline():
    results = [_result("ethanol", 30.0), _result("ethanol", 34.0, seed=1), _result("uracil", 20.0, recipe="wide")]
    table = rmd17_table(results, 50)
    assert table.heads == ["molecule", "default, 10 min", "wide, 10 min", "MACE", "NequIP", "baseline"]
    assert table.rows[0] == [
        "ethanol", "1.00 ± 0.00 / 32.00 ± 2.83 (0.99900 ± 0.00000)", "", "6.7 / 32.6", "8.7 / 40.2", "140 / 900 (0)"
    ]  # fmt: skip
    assert table.rows[1][1:3] == ["", "1.00 / 20.00 (0.99900)"]


def test_the_command_runs_and_writes_tables(archive, tmp_path):
    folders = ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    command = ["bench", "rmd17", "--data", str(archive), "--molecules", "ethanol", "--train", "50", *folders]
    small = ["--recipe", "tiny", "model.preset=default/small", "model.channels=4", "epochs=1"]
    runner = CliRunner()
    assert runner.invoke(app, [*command, "model.lmax=1"]).exit_code != 0, "options without a name must be refused"
    result = runner.invoke(app, [*command, *small])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "results" / "ethanol-50-tiny-20min-seed0.json").is_file()
    for ending, sign in ((".md", "| ethanol |"), (".tex", r"\toprule"), (".html", "<td>ethanol</td>")):
        out = tmp_path / f"table{ending}"
        found = runner.invoke(app, ["bench", "table", "--results", str(tmp_path / "results"), "--out", str(out)])
        assert found.exit_code == 0, found.output
        assert sign in out.read_text(encoding="utf-8")
