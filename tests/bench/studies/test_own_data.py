import pytest
from typer.testing import CliRunner

from cliffordstf.bench.jobs.data_digests import data_digest
from cliffordstf.bench.jobs.sweep import file_name, read_results
from cliffordstf.bench.studies.own_data import own_data_job, own_tables
from cliffordstf.cli.main import app
from cliffordstf.errors import ConfigError, DataError

SMALL = ["model.channels=4", "model.hidden=4", "batch_size=4", "budget=null", "epochs=2"]


def run(tmp_path, clusters, *more):
    folders = ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    words = ["bench", "own", "--train", str(clusters), "--models", "default/small", *folders, *more, *SMALL]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return read_results(tmp_path / "results"), done.output


def test_models_are_compared_on_files_and_on_a_share_of_the_data(tmp_path, clusters):
    splits = ["--test", f"same={clusters}", "--test", "held-out=0.25"]
    results, output = run(tmp_path, clusters, "--recipe", "tiny", "--seeds", "0,1", *splits)
    assert len(results) == 2
    assert "baseline" in output
    (table,) = own_tables(results)
    trained = results[0]["structures"]["train"]
    everything = results[0]["tests"]["same"]["n_structures"]
    assert results[0]["tests"]["same"]["n_also_in_training"] == trained > 0
    assert table.heads == [
        "model",
        "parameters",
        f"held-out ({everything // 4} structures)",
        f"same ({everything} structures, {trained} ALSO IN THE TRAINING SET)",
        "steps/s",
        "passes",
    ]
    assert [row[0] for row in table.rows] == ["tiny", "baseline"]
    assert " ± " in table.rows[0][2]
    assert f"{clusters.name}, 2 passes each, protocol sound" in table.title
    baseline = results[0]["tests"]["held-out"]["baseline_force_mae_mev_per_a"]
    assert table.rows[1][2].endswith(f" / {baseline:.0f} (0)")


def test_the_better_model_comes_first_and_energies_alone_are_enough():
    def result(recipe, energy, forces):
        metrics = {"energy_mae_mev_per_atom": energy, "baseline_energy_mae_mev_per_atom": 50.0}
        metrics |= {"force_mae_mev_per_a": forces, "force_cosine": None if forces is None else 0.9}
        labels = {"source": "a.xyz", "recipe": recipe, "model": recipe, "tests": {"test": metrics}}
        return {**labels, "budget": 60.0, "steps": 30, "seconds": 10.0, "epochs": 3, "parameters": 9, "seed": 0,
                "protocol": "sound", "config": {"epochs": "auto", "data": {"reference": "auto"}}}  # fmt: skip

    (table,) = own_tables([result("good", 9.0, 1.0), result("better", 10.0, 0.5)])
    assert [row[0] for row in table.rows] == ["better", "good", "baseline"]
    assert [row[3] for row in table.rows] == ["3.0", "3.0", ""]
    (instant,) = own_tables([{**result("good", 9.0, 1.0), "seconds": 0.0}])
    assert instant.rows[0][3] == ""
    (table,) = own_tables([result("good", 9.0, None), result("better", 8.0, None)])
    assert [row[2] for row in table.rows] == ["8.00", "9.00", "50.0"]
    elsewhere = result("elsewhere", 9.0, 0.1)
    elsewhere["tests"] = {"other": elsewhere["tests"]["test"]}
    (table,) = own_tables([result("here", 9.0, 1.0), elsewhere])
    assert [row[0] for row in table.rows] == ["here", "elsewhere", "baseline"]
    assert (table.rows[0][3], table.rows[1][2]) == ("", "")


def test_files_of_the_same_name_are_other_data(tmp_path, clusters):
    run(tmp_path, clusters, "--recipe", "tiny", "--test", "held-out=0.25")
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / clusters.name
    other.write_text("".join(clusters.read_text().splitlines(keepends=True)[:-7]))
    assert data_digest(other) != data_digest(clusters)
    with pytest.raises(AssertionError, match="is the result of other options"):
        run(tmp_path, other, "--recipe", "tiny", "--test", "held-out=0.25")
    everything = own_data_job(clusters.parent / "*.extxyz", {"held-out": 0.25})
    assert everything.name == f"{file_name(clusters.parent.name)}-default-10min-seed0"


def test_what_is_missing_is_said_before_anything_is_trained(tmp_path, clusters):
    with pytest.raises(DataError, match=r"nothing\.xyz does not exist"):
        own_data_job(clusters, {"test": tmp_path / "nothing.xyz"})
    with pytest.raises(ConfigError, match="only one test set can be a share"):
        own_data_job(clusters, {"a": 0.1, "b": 0.2})
