import json

import pytest
from typer.testing import CliRunner

from cliffordstf.cli import verify as verify_module
from cliffordstf.cli.main import app
from cliffordstf.verify import algebra, symmetries

RUNNER = CliRunner()


@pytest.fixture
def two_presets(monkeypatch):
    """All presets take most of a minute; the command itself is the same for two."""
    chosen = {"default/small": ("default/small", {}), "paper/full": ("paper/full", {})}
    monkeypatch.setattr(symmetries, "variants", lambda: chosen)
    monkeypatch.setattr(verify_module, "variants", lambda: chosen)


def test_verify_prints_and_writes_its_results(two_presets, tmp_path):
    target = tmp_path / "verify.json"
    result = RUNNER.invoke(app, ["verify", "--json", str(target)])
    assert result.exit_code == 0, result.output
    assert "STF2(u,v)" in result.output
    assert "all checks passed" in result.output
    report = json.loads(target.read_text())
    triples = {(row["l1"], row["l2"], row["l3"]) for row in report["couplings"]}
    assert sum(max(triple) <= 3 for triple in triples) == 34
    assert all(row["max_error"] < 1e-11 for row in report["couplings"])
    assert report["theorem_1"]["max_error"] < 1e-13
    assert report["presets"]["default/small"]["float64"]["inversion"] < 1e-9
    assert "inversion" not in report["presets"]["paper/full"]["float64"]


def test_verify_exits_non_zero_if_anything_fails(two_presets, monkeypatch):
    monkeypatch.setattr(algebra, "COUPLING_TOLERANCE", 0.0)
    result = RUNNER.invoke(app, ["verify", "--samples", "10", "--lmax", "2"])
    assert result.exit_code == 1
    assert "FAIL" in result.output
    assert "some checks failed" in result.output


def test_a_wrong_coefficient_is_found(generator):
    good = algebra.coupling(2, 1, 3)
    i, j, k, value = good.terms[0]
    bad = algebra.Coupling(2, 1, 3, good.name, good.pseudo, ((i, j, k, value * 2), *good.terms[1:]))
    assert algebra.check_coupling(good, 100, generator).passed
    assert not algebra.check_coupling(bad, 100, generator).passed
