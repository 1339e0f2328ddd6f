import numpy as np
import pytest
from ase.build import molecule
from ase.io import write
from typer.testing import CliRunner

from cliffordstf.bench.jobs.sweep import read_results
from cliffordstf.bench.studies.nve import NveJob, nve_table
from cliffordstf.cli.main import app
from cliffordstf.errors import DataError


@pytest.fixture
def frames(tmp_path):
    rng = np.random.default_rng(0)
    images = [molecule("CH3CH2OH") for _ in range(3)]
    for image in images:
        image.positions += rng.normal(0, 0.02, image.positions.shape)
    path = tmp_path / "frames.extxyz"
    write(path, images)
    return path


def test_the_shipped_ethanol_holds_together_and_goes_on_after_a_stop(frames, tmp_path):
    folders = ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    command = ["bench", "nve", "ethanol-gfn2", str(frames), "--temperature", "300", "--seeds", "0,1", *folders]
    result = CliRunner().invoke(app, [*command, "--picoseconds", "0.2"])
    assert result.exit_code == 0, result.output
    first, second = read_results(tmp_path / "results")
    assert first["broken"] is None
    assert first["reached_ps"] == pytest.approx(0.2)
    assert abs(first["drift_mev_per_atom_per_ps"]) < 5
    assert first["bonds"]["C-C"]["mean_run"] == pytest.approx(1.52, abs=0.1)
    assert first["mean_temperature_k"] != second["mean_temperature_k"]
    assert len(nve_table([first, second]).rows) == 2
    short = NveJob("ethanol-gfn2", frames, 3, temperature=300.0, picoseconds=0.1)
    work = tmp_path / "one"
    short.run(work, None)
    whole = NveJob("ethanol-gfn2", frames, 3, temperature=300.0, picoseconds=0.2)
    resumed, straight = whole.run(work, None), whole.run(tmp_path / "two", None)
    assert resumed["mean_temperature_k"] == pytest.approx(straight["mean_temperature_k"], rel=1e-3)


def test_a_run_that_breaks_is_a_result(frames, tmp_path):
    job = NveJob("ethanol-gfn2", frames, 0, temperature=3000.0, timestep=8.0, picoseconds=5)
    found = job.run(tmp_path / "run", None)
    assert found["broken"].startswith("stopped at step")
    assert found["reached_ps"] < 5
    assert nve_table([{**job.labels, **found}]).rows[0][-1] == found["broken"]


def test_frames_of_two_molecules_are_refused(tmp_path):
    write(tmp_path / "two.extxyz", [molecule("CH3CH2OH"), molecule("H2O")])
    with pytest.raises(DataError, match="different molecules"):
        NveJob("ethanol-gfn2", tmp_path / "two.extxyz").run(tmp_path / "run", None)
