import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cliffordstf.bench.speed.speed_study import BOXES, FLAGSHIP, QUICK, SpeedSettings
from cliffordstf.cli.benchmarks import bench
from cliffordstf.cli.main import app
from cliffordstf.errors import ConfigError

RUNNER = CliRunner()


def measured(*names: str) -> dict:
    """What a run might give."""
    times = {"inference_ms": 10.0, "training_ms": 40.0, "latency_ms": 2.0, "training_peak_mb": None}
    return {
        "system": "aspirin",
        "machine": {"processor": "one", "threads": 1},
        "rounds": {"budget_s": 90.0, "done": {"inference": [2, 3]}},
        "rows": [{"name": name, "parameters": 1_000, **times} for name in names],
    }


@pytest.fixture
def asked(monkeypatch) -> list[SpeedSettings]:
    """Settings of the runs that were asked for and not made."""
    found: list[SpeedSettings] = []

    def run(settings, say):
        found.append(settings)
        return measured(*(settings.models or (FLAGSHIP,)))

    monkeypatch.setattr(bench, "run_speed", run)
    return found


def test_models_and_budget_are_handed_on(asked):
    result = RUNNER.invoke(app, ["bench", "speed", "--models", "default, mace-l1,painn", "--budget", "1.5min"])
    assert result.exit_code == 0
    assert asked == [SpeedSettings(models=("default", "mace-l1", "painn"), budget=90.0)]
    assert "budget 1.5 min, rounds: inference 2 to 3" in " ".join(result.output.split())
    assert bench.speed_table(measured("painn", "default")).columns[3].header == "x painn"


def test_quick_is_a_budget_that_can_be_replaced(asked):
    RUNNER.invoke(app, ["bench", "speed", "--quick"])
    RUNNER.invoke(app, ["bench", "speed", "--quick", "--budget", "20s", "--all-boxes"])
    RUNNER.invoke(app, ["bench", "speed"])
    assert [settings.budget for settings in asked] == [QUICK, 20.0, None]
    assert [settings.repetitions for settings in asked] == [5, 5, 15]
    assert [settings.boxes for settings in asked] == [BOXES[:3], BOXES, BOXES]
    assert all(settings.models is None for settings in asked)
    assert bench.speed_table(measured("default lmax 1", FLAGSHIP)).columns[3].header == "x ours"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--models", "default,pain"], r"no preset 'pain' \(did you mean 'painn'\?\)"),
        (["--budget", "soon"], "--budget: 'soon' is not a duration; write 90s, 20min or 1.5h"),
        (["--budget", "0s"], "--budget 0s leaves no time"),
        (["--models", "default", "--no-peers"], "--no-peers has no meaning beside --models"),
    ],
)
def test_mistakes_are_told_in_a_sentence(options, message, tmp_path):
    file = tmp_path / "speed.json"
    with pytest.raises(ConfigError, match=message):
        RUNNER.invoke(app, ["bench", "speed", "--json", str(file), *options], catch_exceptions=False)
    assert not Path(file).exists()


def test_tables_of_several_folders_are_one_page_that_says_its_letters(tmp_path):
    run = {"budget": 60.0, "seed": 0, "epochs": 3, "parameters": 9, "protocol": "sound", "model": "painn-qm9"}
    run |= {"recipe": "painn-qm9", "config": {"epochs": 3, "data": {"reference": "auto"}}}
    metrics = {"energy_mae_mev": 5.0, "baseline_energy_mae_mev": 9.0}
    for benchmark, target in (("qm9", "alpha"), ("molecule3d", "gap")):
        (tmp_path / benchmark).mkdir()
        result = {**run, "benchmark": benchmark, "target": target, "metrics": metrics}
        (tmp_path / benchmark / "a.json").write_text(json.dumps(result))
    page = tmp_path / "page.html"
    words = ["bench", "table", "--results", str(tmp_path / "qm9"), "--results", str(tmp_path / "molecule3d")]
    assert RUNNER.invoke(app, [*words, "--out", str(page)]).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert '<meta charset="utf-8">' in text
    assert text.count("<table>") == 2
    assert "bohr³" in text
    RUNNER.invoke(app, [*words, "--paper-layout", "--out", str(page)], catch_exceptions=False)
    assert page.read_text(encoding="utf-8").count("<table>") == 1, "the paper has both in one"
    with pytest.raises(ConfigError, match=r"qm8 holds no results; run"):
        RUNNER.invoke(app, [*words, "--results", str(tmp_path / "qm8")], catch_exceptions=False)
