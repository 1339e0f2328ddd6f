"""Learning rates are tried on validation frames; the test set stays unseen."""

from pathlib import Path

import numpy as np
import pytest

from cliffordstf.bench import protocols
from cliffordstf.bench.protocols import protocol_options, sound_rate
from cliffordstf.bench.rates import rates_cell, rates_tables
from cliffordstf.bench.tables import all_tables
from tests.bench.test_leaderboard import result as leaderboard_result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An official split of noise: what matters here is which frames are used."""
    generator = np.random.default_rng(0)
    numbers = np.array([8, 1, 1])
    start = np.array([[0.0, 0.0, 0.0], [0.96, 0.0, 0.0], [-0.24, 0.93, 0.0]])
    for part, count in (("train", 1000), ("test", 10)):
        np.savez(
            tmp_path / f"rmd17_ethanol_{part}_01.npz",
            nuclear_charges=numbers,
            coords=start + 0.02 * generator.normal(size=(count, 3, 3)),
            energies=generator.normal(size=count),
            forces=generator.normal(size=(count, 3, 3)),
            old_indices=np.arange(count),
            old_energies=np.zeros(count),
            old_forces=np.zeros((count, 3, 3)),
        )
    return tmp_path


def result(model: str, rate: float, forces: float, molecule: str = "ethanol") -> dict:
    config = {"optimizer": {"learning_rate": rate}}
    return {**leaderboard_result(model, forces, molecule, benchmark="rates"), "budget": 180.0, "config": config}


def test_a_run_is_judged_by_its_validation_frames_and_never_sees_the_test_set(folder: Path, tmp_path: Path):
    cell = rates_cell(folder, "ethanol", "paper/clifford", 0.02, overrides=("epochs=1", "budget=null", "batch_size=64"))
    assert (cell.config.data.test, cell.config.data.test_indices) == (0, None)
    (folder / "rmd17_ethanol_test_01.npz").unlink()
    found = cell.run(tmp_path / "run", None)
    assert found is not None
    assert found["metrics"]["n_structures"] == 50
    assert found["config"]["optimizer"]["learning_rate"] == 0.02
    (table,) = all_tables([{**cell.labels, **found, "budget": 180.0}])
    assert table.rows[0][0] == "paper/clifford"


def test_rates_are_columns_and_the_one_that_sound_takes_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocols, "SOUND_RATES", {"mace": 0.02})
    rows = [result("mace-l1", 0.02, 10.0), result("mace-l1", 0.005, 20.0), result("painn", 0.005, 5.0)]
    rows += [result("painn", 0.005, 7.0, molecule="aspirin")]
    aspirin, ethanol = rates_tables(rows)
    assert ethanol.heads == ["model", "0.005", "0.02", "taken"]
    mace, painn, zero = ethanol.rows
    assert "20.00" in mace[1]
    assert "10.00" in mace[2]
    assert mace[3] == "0.02"
    assert painn[2:] == ["", "ours"]
    assert zero == ["zero row", "140 / 900 (0)", "140 / 900 (0)", ""]
    assert [row[0] for row in aspirin.rows] == ["painn", "zero row"]


def test_sound_gives_a_family_its_rate_and_leaves_the_others_ours(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocols, "SOUND_RATES", {"mace": 0.02})
    assert protocol_options("sound", "rmd17", "mace-l2-md17") == ("optimizer.learning_rate=0.02",)
    for model in ("default", "paper/full", "painn"):
        assert protocol_options("sound", "rmd17", model) == ()
        assert sound_rate(model) is None
