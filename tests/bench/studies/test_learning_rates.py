"""Learning rates are tried on validation frames; the test set stays unseen."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cliffordstf.bench.jobs import protocols
from cliffordstf.bench.jobs.protocols import protocol_options, sound_rate
from cliffordstf.bench.studies.learning_rates import VALIDATION_MOLECULES, rates_job, rates_tables, scalar_rates_job
from cliffordstf.bench.studies.scalar_targets import NOTHING, scalar_job
from cliffordstf.bench.tables.all_tables import all_tables
from cliffordstf.cli.main import app
from cliffordstf.errors import ConfigError
from cliffordstf.train.setup import load_splits
from tests.bench.studies.test_scalar_targets import molecules
from tests.bench.tables.test_leaderboard import result as leaderboard_result

__all__ = ["molecules"]


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
    job = rates_job(folder, "ethanol", "paper/clifford", 0.02, overrides=("epochs=1", "budget=null", "batch_size=64"))
    assert (job.config.data.test, job.config.data.test_indices) == (0, None)
    (folder / "rmd17_ethanol_test_01.npz").unlink()
    found = job.run(tmp_path / "run", None)
    assert found is not None
    assert found["metrics"]["n_structures"] == 50
    assert found["config"]["optimizer"]["learning_rate"] == 0.02
    (table,) = all_tables([{**job.labels, **found, "budget": 180.0}])
    assert table.rows[0][0] == "paper/clifford"


def test_rates_are_columns_and_the_one_that_sound_takes_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocols, "SOUND_RATES", {"mace": 0.02})
    rows = [result("mace-l1", 0.02, 10.0), result("mace-l1", 0.005, 20.0), result("painn", 0.005, 5.0)]
    rows += [result("painn", 0.005, 7.0, molecule="aspirin")]
    aspirin, ethanol = rates_tables(rows)
    assert ethanol.heads == ["model", "0.005", "0.02", "taken"]
    mace, painn, baseline = ethanol.rows
    assert "20.00" in mace[1]
    assert "10.00" in mace[2]
    assert mace[3] == "0.02"
    assert painn[2:] == ["", "ours"]
    assert baseline == ["baseline", "140 / 900 (0)", "140 / 900 (0)", ""]
    assert [row[0] for row in aspirin.rows] == ["painn", "baseline"]


def test_sound_gives_a_family_its_rate_and_leaves_the_others_ours(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocols, "SOUND_RATES", {"mace": 0.02})
    assert protocol_options("sound", "rmd17", "mace-l2-md17") == ("optimizer.learning_rate=0.02",)
    for model in ("default", "paper/full", "painn"):
        assert protocol_options("sound", "rmd17", model) == ()
        assert sound_rate(model, "rmd17") is None


SMALL = ("model.channels=4", "epochs=2", "budget=null", "data.valid=8")


def test_rates_of_qm9_leave_the_molecules_of_its_test_set_alone(molecules: Path, tmp_path: Path):
    job = scalar_rates_job(str(molecules), "U0", "default", 0.02, exclude=NOTHING, overrides=SMALL)
    study = scalar_job("qm9", str(molecules), "U0", exclude=NOTHING)
    tested = {frame.structure.name for frame in load_splits(study.config.data).test}
    mine = load_splits(job.config.data)
    assert len(tested) == 4
    assert not mine.test
    assert not tested & {frame.structure.name for frame in [*mine.train, *mine.valid]}
    found = job.run(tmp_path / "run", None)
    assert found is not None
    assert found["metrics"]["n_structures"] == 8
    (table,) = all_tables([{**job.labels, **found}])
    assert table.title.startswith(
        "Learning rates, QM9 U0 (28 training structures), 2 passes each, protocol sound: validation MAE, meV;"
    )
    assert table.rows[0] == ["default", f"{found['metrics']['energy_mae_mev']:.3f}", "ours"]
    assert table.rows[1][0] == "baseline"
    plain = scalar_rates_job(str(molecules), "U0", "default", 0.02, exclude=NOTHING)
    assert plain.config.data.valid == VALIDATION_MOLECULES


def test_one_number_a_structure_may_want_another_rate(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocols, "SOUND_RATES", {"mace": 0.1})
    monkeypatch.setattr(protocols, "SOUND_RATES_OF_SCALARS", {"mace": 0.01, "painn": 0.001})
    assert protocol_options("sound", "qm9", "mace-l1") == ("optimizer.learning_rate=0.01",)
    assert protocol_options("sound", "rmd17", "mace-l1") == ("optimizer.learning_rate=0.1",)
    assert sound_rate("painn", "molecule3d") == 0.001
    assert sound_rate("painn", "oc20 s2ef") is None


@pytest.mark.parametrize("options", [["--targets", "U0", "--molecules", "ethanol"], ["--exclude", "none"]])
def test_options_of_the_other_benchmark_are_refused(options: list[str]):
    done = CliRunner().invoke(app, ["bench", "rates", *options])
    assert done.exit_code != 0
    assert isinstance(done.exception, ConfigError)


def test_a_study_that_is_judged_by_its_test_set_wants_to_see_it(molecules: Path, tmp_path: Path):
    job = scalar_job("qm9", str(molecules), "U0", exclude=NOTHING, overrides=("data.judge_test=false",))
    with pytest.raises(ConfigError, match="leaves this study without its test set"):
        job.run(tmp_path / "run", None)
    assert not (tmp_path / "run").exists()
