import numpy as np
import pytest
import typer
from ase import Atoms
from ase.build import bulk
from ase.io import read, write
from typer.testing import CliRunner

import cliffordstf
from cliffordstf.cli.relax import relax
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.integrations.ase import Calculator
from cliffordstf.model.file import save_model

RUNNER = CliRunner()


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(relax)
    return app


@pytest.fixture
def model(tmp_path):
    potential = cliffordstf.build("default/small", elements=["Si"], seed=0, channels=8, energy_scale=100.0)
    return save_model(potential, tmp_path / "model.safetensors")


@pytest.fixture
def silicon(tmp_path):
    atoms = bulk("Si")
    atoms.rattle(0.05, seed=0)
    write(tmp_path / "si.extxyz", [Atoms("Si"), atoms])
    return tmp_path / "si.extxyz"


def test_a_relaxed_structure_and_its_trajectory_are_written(app, model, silicon, tmp_path):
    out, trajectory = tmp_path / "out.extxyz", tmp_path / "out.traj"
    options = ["--out", str(out), "--trajectory", str(trajectory), "--fmax", "0.001", "--optimizer", "fire"]
    result = RUNNER.invoke(app, [str(model), str(silicon), *options])
    assert result.exit_code == 0, result.output
    assert "converged in" in result.output
    assert "eV/Å" in result.output
    relaxed = read(out)
    assert np.linalg.norm(relaxed.get_forces(), axis=1).max() < 0.001
    relaxed.calc = Calculator(model)
    assert np.linalg.norm(relaxed.get_forces(), axis=1).max() < 0.0011
    energies = [frame.get_potential_energy() for frame in read(trajectory, ":")]
    assert energies[-1] < energies[0]


def test_too_few_steps_exit_with_1_and_write_what_there_is(app, model, silicon, tmp_path):
    out = tmp_path / "out.extxyz"
    result = RUNNER.invoke(
        app, [str(model), str(silicon), "--out", str(out), "--steps", "1", "--fmax", "1e-6", "--cell"]
    )
    assert result.exit_code == 1
    assert "not converged after 1 steps" in result.output
    assert "Å³" in result.output
    assert "stress" in read(out).calc.results


def test_mistakes_are_errors(app, model, silicon, tmp_path):
    result = RUNNER.invoke(app, [str(model), str(silicon), "--index", "7"])
    assert isinstance(result.exception, DataError)
    assert "holds 2 structures, so there is none with index 7" in str(result.exception)
    result = RUNNER.invoke(app, [str(model), str(silicon), "--index", "0", "--cell"])
    assert isinstance(result.exception, ConfigError)
    assert "its cell cannot be relaxed" in str(result.exception)
    assert not list(tmp_path.glob("relaxed*"))
