import csv

import numpy as np
import pytest
import typer
from ase.build import molecule
from ase.io import read, write
from typer.testing import CliRunner

import cliffordstf
from cliffordstf.cli.md import md
from cliffordstf.errors import ConfigError
from cliffordstf.integrations.dispersion import D3
from cliffordstf.model.file import save_model
from cliffordstf.simulate.guards import SimulationError

RUNNER = CliRunner()


@pytest.fixture
def run(tmp_path, monkeypatch):
    app = typer.Typer()
    app.command()(md)
    for seed in range(2):
        potential = cliffordstf.build("default/small", elements=["H", "O"], seed=seed, channels=8)
        save_model(potential, tmp_path / f"model{seed}.safetensors")
    write(tmp_path / "water.extxyz", molecule("H2O"))
    monkeypatch.chdir(tmp_path)

    def invoke(*options: str):
        return RUNNER.invoke(app, ["model0.safetensors", "water.extxyz", *options])

    return invoke


def test_a_run_prints_a_summary_and_writes_its_files(run, tmp_path):
    result = run("--ensemble", "nve", "--steps", "20", "--timestep", "0.5", "--temperature", "300", "--interval", "5")
    assert result.exit_code == 0, result.output
    for words in ("20 (0.01 ps) of 3 atoms", "meV/atom/ps", "ns a day", "ms a step", " K", "% of the time"):
        assert words in result.output
    assert len(read("md.traj", ":")) == 5
    assert len((tmp_path / "md.csv").read_text().splitlines()) == 6
    assert (tmp_path / "md.restart.npz").is_file()


def test_a_run_is_resumed_and_not_overwritten_by_accident(run):
    assert run("--steps", "10", "--trajectory", "md.extxyz").exit_code == 0
    again = run("--steps", "10", "--trajectory", "md.extxyz")
    assert isinstance(again.exception, ConfigError)
    assert "md.extxyz exists" in str(again.exception)
    resumed = run("--steps", "20", "--trajectory", "md.extxyz", "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert "10 (0.005 ps) of 3 atoms, up to step 20" in resumed.output
    assert "drift" not in resumed.output
    assert [frame.info["step"] for frame in read("md.extxyz", ":")] == [0, 10, 20]
    assert run("--steps", "10", "--trajectory", "md.extxyz", "--overwrite").exit_code == 0
    assert [frame.info["step"] for frame in read("md.extxyz", ":")] == [0, 10]


def test_an_ensemble_stops_the_run(run, tmp_path):
    committee = ("--committee", "model1.safetensors")
    assert run("--steps", "2", *committee).exit_code == 0
    assert "max_force_std_ev_per_a" in (tmp_path / "md.csv").read_text()
    result = run("--steps", "2", "--overwrite", *committee, "--max-force-std", "1e-6")
    assert isinstance(result.exception, SimulationError)
    assert "the standard deviation of the ensemble on a force is" in str(result.exception)


def test_a_run_at_constant_pressure_prints_the_means_of_its_log(run, tmp_path):
    atoms = molecule("H2O", cell=[7, 7, 7], pbc=True)
    write("water.extxyz", atoms)
    options = ("--ensemble", "npt", "--steps", "6", "--timestep", "0.2", "--pressure", "0.5")
    result = run(*options, "--interval", "1")
    assert result.exit_code == 0, result.output
    with (tmp_path / "md.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0])[6:] == ["volume_a3", "density_g_cm3", "pressure_gpa"]
    means = {name: np.mean([float(row[name]) for row in rows]) for name in list(rows[0])[6:]}
    assert f"mean volume     {means['volume_a3']:.3f} Å³" in result.output
    assert f"mean density    {means['density_g_cm3']:.4f} g/cm³" in result.output
    assert f"mean pressure   {means['pressure_gpa']:.4f} GPa (target: 0.5 GPa)" in result.output
    resumed = run(*options[:2], "--steps", "9", *options[4:], "--interval", "1", "--resume")
    assert resumed.exit_code == 0, resumed.output
    lines = (tmp_path / "md.csv").read_text().splitlines()
    assert lines[1:8] == [",".join(row.values()) for row in rows]
    assert [line.split(",")[0] for line in lines[1:]] == [str(step) for step in range(10)]


def test_dispersion_is_added(run, tmp_path):
    def first_energy(*options: str) -> float:
        assert run("--steps", "1", "--overwrite", *options).exit_code == 0
        with (tmp_path / "md.csv").open(newline="") as stream:
            return float(next(csv.DictReader(stream))["potential_ev"])

    expected = D3("pbe").evaluate(molecule("H2O")).energy
    assert first_energy("--d3", "pbe") - first_energy() == pytest.approx(expected, abs=1e-9)
    assert expected < -1e-3
    result = run("--steps", "1", "--overwrite", "--d3", "pbee")
    assert isinstance(result.exception, ConfigError)
    assert "did you mean 'pbe'?" in str(result.exception)
