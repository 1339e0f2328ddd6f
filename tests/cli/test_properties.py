import json

import numpy as np
import pytest
import typer
from ase.build import bulk, molecule
from ase.io import read, write
from matplotlib.image import imread
from typer.testing import CliRunner

import cliffordstf
from cliffordstf.cli.properties import properties
from cliffordstf.errors import ConfigError
from cliffordstf.integrations.ase import Calculator
from cliffordstf.model.file import save_model
from cliffordstf.simulate.phonons import phonons

RUNNER = CliRunner()


@pytest.fixture
def run(tmp_path, monkeypatch):
    app = typer.Typer()
    app.command()(properties)
    monkeypatch.chdir(tmp_path)
    return lambda *words: RUNNER.invoke(app, list(words))


@pytest.fixture
def silicon(tmp_path):
    potential = cliffordstf.build("default/small", elements=["Si"], seed=1, channels=8, energy_scale=20.0)
    save_model(potential, tmp_path / "model.safetensors")
    write(tmp_path / "si.extxyz", bulk("Si", a=5.2))


def test_a_crystal(run, silicon):
    pytest.importorskip("phonopy", reason="properties of crystals need phonopy and spglib")
    options = ("--json", "out.json", "--out", "relaxed.extxyz", "--supercell", "2", "2", "2")
    result = run("model.safetensors", "si.extxyz", *options)
    assert result.exit_code == 0, result.output
    for line in ("space group     Fd-3m (227)", "bulk modulus", "elastic tensor  GPa", "supercell 2 × 2 × 2"):
        assert line in result.output
    with open("out.json", encoding="utf-8") as stream:
        found = json.load(stream)
    relaxed = read("relaxed.extxyz")
    assert relaxed.get_potential_energy() == pytest.approx(2 * found["energy_ev_atom"], abs=1e-9)
    assert found["space_group"]["lengths_a"][0] == pytest.approx(relaxed.cell.lengths()[0] * np.sqrt(2), abs=1e-4)
    tensor = np.array(found["elastic_gpa"])
    np.testing.assert_array_equal(tensor, tensor.T)
    # A crystal of this symmetry has three constants.
    np.testing.assert_allclose(tensor[[1, 2], [1, 2]], tensor[0, 0], rtol=1e-3)
    phonon = phonons(relaxed, Calculator("model.safetensors"), (2, 2, 2), symprec=1e-4)
    phonon.run_qpoints([[0, 0, 0]])
    place = found["phonons"]["q"].index([0.0, 0.0, 0.0])
    np.testing.assert_allclose(phonon.qpoints.frequencies[0], found["phonons"]["frequencies_thz"][place], atol=1e-3)
    np.testing.assert_allclose(found["phonons"]["frequencies_thz"][place][:3], 0, atol=1e-3)
    assert imread("properties.png").std() > 0.05
    assert (len(found["phonons"]["imaginary"]) > 0) == ("imaginary" in result.output)


def test_a_molecule(run):
    write("ethanol.xyz", molecule("CH3CH2OH"))
    result = run("ethanol-gfn2", "ethanol.xyz", "--json", "out.json", "--figure", "modes.png")
    assert result.exit_code == 0, result.output
    with open("out.json", encoding="utf-8") as stream:
        found = json.load(stream)
    for value in found["frequencies_cm"]:
        assert f"{value:.1f}" in result.output
    assert f"{found['rotational_constants_ghz'][0]:.4f}" in result.output
    assert imread("modes.png").std() > 0.02
    assert "written to modes.png, out.json" in result.output


def test_parts_can_be_left_out(run, silicon):
    pytest.importorskip("phonopy", reason="properties of crystals need phonopy and spglib")
    result = run("model.safetensors", "si.extxyz", "--no-elastic", "--no-phonons")
    assert result.exit_code == 0, result.output
    assert "elastic" not in result.output
    assert "phonons" not in result.output
    assert imread("properties.png").std() > 0.02


def test_a_slab_is_explained(run, silicon):
    slab = bulk("Si")
    slab.pbc = (True, True, False)
    write("slab.extxyz", slab)
    result = run("model.safetensors", "slab.extxyz")
    assert isinstance(result.exception, ConfigError)
    assert "is a slab, periodic in 2 of three directions" in str(result.exception)
