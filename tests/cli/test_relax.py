import re
from pathlib import Path

import numpy as np
import pytest
import typer
from ase import Atoms
from ase.build import bulk, molecule
from ase.io import read, write
from ase.units import GPa
from typer.testing import CliRunner

import cliffordstf
from cliffordstf.cli.relax import _print, relax
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.integrations.ase import Calculator
from cliffordstf.integrations.dispersion import D3
from cliffordstf.model.file import save_model
from cliffordstf.simulate.relax import RelaxResult, RelaxSettings

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


def test_stress_is_printed_in_gpa_with_its_deviation_from_the_pressure(app, model, silicon, tmp_path):
    options = ["--out", str(tmp_path / "out.extxyz"), "--fmax", "0.05", "--cell", "--pressure", "2", "--steps", "40"]
    result = RUNNER.invoke(app, [str(model), str(silicon), *options])
    assert "(target: 2 GPa, deviation:" in result.output
    stress = read(tmp_path / "out.extxyz").get_stress() / GPa
    expected = stress + 2 * np.array([1, 1, 1, 0, 0, 0])
    line = next(line for line in result.output.splitlines() if line.startswith("residual stress"))
    names, values = line.split()[2:-1:2], [float(value) for value in line.split()[3:-1:2]]
    assert names == ["xx", "yy", "zz", "yz", "xz", "xy"]
    assert line.endswith(" GPa")
    np.testing.assert_allclose(values, expected, atol=1e-4)
    assert f"pressure        {-stress[:3].mean():.4f} GPa" in result.output
    held = RUNNER.invoke(app, [str(model), str(silicon), "--out", str(tmp_path / "held.extxyz"), "--steps", "3"])
    assert "residual stress xx" in held.output
    assert "target" not in held.output
    assert "cell gradient" not in held.output


@pytest.mark.parametrize("fmax", [0.01234567891, 0.02, 1e-9, 0.0999999999])
def test_no_printed_force_passes_the_limit_of_a_converged_relaxation(fmax, capsys):
    for force in (np.nextafter(fmax, 0), 0.9999996 * fmax, 0.5 * fmax):
        result = RelaxResult(True, 3, -1.0, float(force), 0.0, 1.0, cell_gradient=float(force))
        _print(result, RelaxSettings(fmax=fmax, cell=True), bulk("Si"), Path("out.extxyz"))
        numbers = re.findall(r"(?:force|gradient) +(\S+) eV.*limit: (\S+) eV", capsys.readouterr().out)
        assert len(numbers) == 2
        assert all(0 < float(found) <= float(limit) for found, limit in numbers)


def test_dispersion_is_added(app, tmp_path):
    potential = cliffordstf.build("default/small", elements=["H", "C"], seed=0, channels=8)
    model, file, out = tmp_path / "model.safetensors", tmp_path / "in.extxyz", tmp_path / "out.extxyz"
    save_model(potential, model)
    write(file, molecule("CH4"))

    def energy(*options: str) -> float:
        out.unlink(missing_ok=True)
        RUNNER.invoke(app, [str(model), str(file), "--out", str(out), "--steps", "0", *options], catch_exceptions=False)
        return float(read(out).get_potential_energy())

    expected = D3("b3lyp").evaluate(molecule("CH4")).energy
    assert energy("--d3", "b3lyp") - energy() == pytest.approx(expected, abs=1e-6)
    assert expected < -0.01


def test_mistakes_are_errors(app, model, silicon, tmp_path):
    result = RUNNER.invoke(app, [str(model), str(silicon), "--index", "7"])
    assert isinstance(result.exception, DataError)
    assert "holds 2 structures, so there is none with index 7" in str(result.exception)
    result = RUNNER.invoke(app, [str(model), str(silicon), "--index", "0", "--cell"])
    assert isinstance(result.exception, ConfigError)
    assert "its cell cannot be relaxed" in str(result.exception)
    assert not list(tmp_path.glob("relaxed*"))
