import pytest

from cliffordstf.bench.tables.figures import draw


@pytest.fixture
def run() -> dict:
    history = [{"seconds": 10.0 * n, "valid_force_mae_mev_per_a": 100.0 / n} for n in range(1, 6)]
    return {
        "benchmark": "rmd17",
        "molecule": "ethanol",
        "recipe": "default",
        "budget": 60.0,
        "seconds": 50.0,
        "history": history,
        "metrics": {"force_mae_mev_per_a": 21.0},
    }


def test_curves_and_scans_are_drawn(run, tmp_path):
    scan = {"energy_ev": [0.0, 0.1, 0.0], "energy_label_ev": [0.0, 0.2, 0.1]}
    acac = {"benchmark": "acac", "recipe": "default", "seed": 0, "tests": {"H transfer": scan}}
    assert draw([run, acac], tmp_path / "both.svg")
    text = (tmp_path / "both.svg").read_text(encoding="utf-8")
    assert "ethanol" in text
    assert "H transfer" in text
    assert "MACE, published" in text


def test_runs_without_validation_have_no_curve(run, tmp_path):
    assert not draw([{**run, "history": [{"seconds": 1.0}]}], tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()
