import json
import shutil

import pytest
from typer.testing import CliRunner

from cliffordstf.bench.speed.against import comparison, structures
from cliffordstf.bench.speed.against.comparison import AgainstSettings, compare
from cliffordstf.bench.speed.against.comparison_table import against_table
from cliffordstf.bench.speed.against.worker_process import own_source
from cliffordstf.bench.tables.all_tables import all_tables
from cliffordstf.cli.main import app
from cliffordstf.errors import ConfigError

SLOW = """

from ase.calculators.calculator import all_changes as _all_changes

_calculate = Calculator.calculate


def _slower(self, atoms=None, properties=("energy",), system_changes=tuple(_all_changes)):
    import time
    time.sleep(0.2)
    _calculate(self, atoms, properties, system_changes)


Calculator.calculate = _slower
"""


@pytest.fixture
def checkout(tmp_path):
    """This code, with a calculator that sleeps: another commit."""
    package = tmp_path / "other" / "src" / "cliffordstf"
    shutil.copytree(own_source() / "cliffordstf", package, ignore=shutil.ignore_patterns("__pycache__", "models"))
    with (package / "integrations" / "ase.py").open("a", encoding="utf-8") as stream:
        stream.write(SLOW)
    return tmp_path / "other"


def test_a_slower_commit_is_seen_and_computes_the_same(checkout, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "BATCH", 4)
    monkeypatch.setattr(structures, "MOLECULES", {"ethanol": structures.MOLECULES["ethanol"]})
    said: list[str] = []
    settings = AgainstSettings(models=("default/small",), boxes=(32,), repetitions=3, limit=0.1, turn=0.0)
    results = compare(checkout, settings, said.append)
    rows = {(row["system"], comparison.what_is_timed(row)): row for row in results["rows"]}
    kinds = ("latency", "inference", "training, batch size auto", "training, batch size 4")
    assert set(rows) == {("copper 32", "box"), *(("ethanol", kind) for kind in kinds)}
    for (_, kind), row in rows.items():
        assert row["old_over_new"]["rounds"] >= 3
        if kind.startswith("training"):  # which the calculator has no part in
            assert row["old_over_new"]["low"] < 5
        else:
            assert row["seconds"]["old"] > 0.2
            assert row["old_over_new"]["low"] > 1.3
            assert row["largest_difference_of_forces"] < 1e-5 * row["largest_force"]
    assert set(rows["copper 32", "box"]["kilobytes_per_atom"]) == {"old", "new"}
    assert len(said) == len(rows)
    (table,) = all_tables([json.loads(json.dumps(results))])
    assert table == against_table(results)
    assert [row[:3] for row in table.rows][-1] == ["default/small", "copper 32", "box"]
    assert "old / new" in table.heads


def test_a_box_that_does_not_fit_twice_is_not_timed(monkeypatch):
    assert comparison._fits({"old": 1.0, "new": None})
    assert not comparison._fits({"old": 1e15, "new": 1e15})
    row = {"model": "m", "system": "copper 100", "kind": "box", "kilobytes_per_atom": {"old": 3.0, "new": None}}
    machine = {"processor": "one", "threads": 1}
    table = against_table({"machine": machine, "commit": None, "against": {"commit": "0123456789abc+"}, "rows": [row]})
    assert table.rows == [["m", "copper 100", "box", "", "", "", "3", "", ""]]
    assert table.title.startswith("Commit 012345678+ (old) and unknown (new)")


def test_names_and_paths_are_checked_before_anything_is_measured(tmp_path):
    with pytest.raises(ConfigError, match="there is no preset 'defualt'"):
        compare(tmp_path, AgainstSettings(models=("defualt",)), print)
    result = CliRunner().invoke(app, ["bench", "speed", "--against", str(tmp_path)])
    assert isinstance(result.exception, ConfigError)
    assert "is no checkout of cliffordstf" in str(result.exception)


def test_options_that_mean_nothing_beside_it_are_refused(tmp_path):
    result = CliRunner().invoke(app, ["bench", "speed", "--against", str(tmp_path), "--budget", "3min"])
    assert "leave --no-peers and --budget out" in str(result.exception)
