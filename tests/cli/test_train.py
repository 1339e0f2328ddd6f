import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cliffordstf.cli.main import app

RUNNER = CliRunner()
KEYS = {
    "energy_mae_mev", "energy_mae_mev_per_atom", "force_mae_mev_per_a", "force_rmse_mev_per_a", "force_cosine",
    "stress_mae_mev_per_a3", "n_structures", "baseline_energy_mae_mev", "baseline_force_mae_mev_per_a",
}  # fmt: skip


@pytest.fixture
def trained(clusters, options, tmp_path) -> tuple[Path, str]:
    result = RUNNER.invoke(app, ["train", str(clusters), *options[1:], "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    return tmp_path / "run", result.output


def test_train_prints_labels_errors_and_where_things_are(trained):
    directory, output = trained
    assert "with forces" in output
    assert "baseline" in output
    assert "forces, meV/Å" in output
    for name in ("model.safetensors", "summary.png", "report/index.html"):
        assert (directory / name).is_file()


def test_eval_writes_the_keys_that_others_rely_on(trained, clusters, tmp_path):
    directory, _ = trained
    target, page = tmp_path / "errors.json", tmp_path / "page"
    arguments = [
        "eval",
        str(directory / "model.safetensors"),
        str(clusters),
        "--json",
        str(target),
        "--html",
        str(page),
    ]
    result = RUNNER.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads(target.read_text())
    assert set(report) >= KEYS
    assert report["n_structures"] == 24
    assert (page / "index.html").is_file()


def test_a_finished_run_can_be_made_longer(trained):
    directory, _ = trained
    before = json.loads((directory / "metrics.json").read_text())["provenance"]["epochs"]
    result = RUNNER.invoke(app, ["train", "--resume", str(directory), "--epochs", "6"])
    assert result.exit_code == 0, result.output
    assert json.loads((directory / "metrics.json").read_text())["provenance"]["epochs"] == before + 2


def test_show_config_and_schema():
    shown = RUNNER.invoke(app, ["train", "--show-config", "model.lmax=3"])
    assert "lmax: 3" in shown.output
    assert "learning_rate:" in shown.output
    schema = json.loads(RUNNER.invoke(app, ["train", "--schema"]).output)
    assert "optimizer" in schema["properties"]


def test_models_are_listed():
    result = RUNNER.invoke(app, ["models"])
    assert result.exit_code == 0
    assert "GFN2-xTB" in result.output
