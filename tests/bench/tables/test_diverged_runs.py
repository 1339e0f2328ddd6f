import json
import pickle
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cliffordstf.bench.jobs.sweep import Sweep, SweepError, read_results
from cliffordstf.bench.jobs.training_job import TrainingJob
from cliffordstf.bench.studies.ensemble import EnsembleJob
from cliffordstf.bench.tables.all_tables import all_tables
from cliffordstf.bench.tables.paper_tables import paper_tables
from cliffordstf.cli.main import app
from cliffordstf.train.config import load_config
from cliffordstf.train.progress import DivergedError

LABELS = {"benchmark": "rmd17", "molecule": "ethanol", "train": 8, "protocol": "sound", "overrides": []}
SMALL = ("model.preset=default/small", "model.channels=4", "model.hidden=4", "batch_size=4", "data.valid=4", "epochs=2")
WILD = ("optimizer.learning_rate=1e30", "optimizer.clip=null", "schedule.warmup_steps=0")


def cell(clusters, name: str, *options: str) -> TrainingJob:
    config = load_config(None, [f"data.train={clusters}", "data.test=4", *SMALL, *options])
    return TrainingJob(name, {**LABELS, "model": name, "recipe": name}, config)


@pytest.fixture
def results(clusters, tmp_path):
    sweep = Sweep(tmp_path / "results", tmp_path / "work")
    assert sweep.run([cell(clusters, "wild", *WILD), cell(clusters, "tame")], lambda _: None).is_done
    return read_results(sweep.results)


def test_a_run_that_diverges_is_a_result_and_not_forgotten(results):
    tame, wild = results
    assert wild["diverged"].startswith("the loss is ")
    assert "/" not in wild["diverged"], "where the run was is nobody's business"
    assert wild["config"]["optimizer"]["learning_rate"] == 1e30
    assert wild["command"]
    assert tame["metrics"]["force_mae_mev_per_a"] > 0


@pytest.mark.parametrize("tables", [all_tables, paper_tables])
def test_tables_of_errors_leave_it_out_and_a_table_of_its_own_names_it(results, tables):
    *errors, lost = tables(results)
    assert errors
    assert all("wild" not in cell for table in errors for row in table.rows for cell in row)
    assert lost.rows == [["wild", "rmd17 ethanol", "2 passes", "0", results[1]["diverged"]]]
    assert "Runs that diverged" not in [table.title for table in tables(results[:1])]


def test_a_mean_with_a_lost_member_is_refused(clusters, tmp_path):
    member = cell(clusters, "member0", *WILD)
    with pytest.raises(SweepError, match=r"the member with seed 0 diverged \(the loss is"):
        EnsembleJob("two", member.labels, (member,)).run(tmp_path / "run", None)


def test_scans_of_a_lost_run_are_not_drawn(tmp_path):
    scan = {"energy_ev": [0.0, 0.1], "energy_label_ev": [0.0, 0.2]}
    run = {"benchmark": "acac", "recipe": "default", "budget": 60.0, "config": {"epochs": "auto"}, "history": []}
    lost = {**run, "seed": 0, "tests": {}, "metrics": {}, "diverged": "the loss is nan"}
    names = ("MD 300 K", "MD 600 K", "dihedral scan", "H transfer")
    numbers = dict.fromkeys(
        ("energy_rmse_mev", "force_rmse_mev_per_a", "baseline_energy_rmse_mev", "baseline_force_rmse_mev_per_a"), 1.0
    )
    kept = {**run, "seed": 1, "tests": {name: {**scan, **numbers} for name in names}, "metrics": {}}
    for number, result in enumerate((lost, kept)):
        (tmp_path / f"{number}.json").write_text(json.dumps(result))
    words = ["bench", "table", "--results", str(tmp_path), "--figure", str(tmp_path / "scans.png")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "scans.png").is_file()


def test_it_can_be_told_to_another_process():
    error = DivergedError("the loss is nan at step 3", Path("last.ckpt"))
    same = pickle.loads(pickle.dumps(error))
    assert (str(same), same.what) == (str(error), "the loss is nan at step 3")
