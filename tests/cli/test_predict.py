import numpy as np
import pytest
import typer
from ase import Atoms
from ase.build import bulk, molecule
from ase.io import read, write
from typer.testing import CliRunner

import cliffordstf
from cliffordstf.cli.predict import predict
from cliffordstf.errors import DataError, ModelFileError, StructureError, UnknownElementError
from cliffordstf.model.file import save_model

RUNNER = CliRunner()


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(predict)
    return app


@pytest.fixture
def model(tmp_path):
    potential = cliffordstf.build("default/small", elements=["H", "C", "O", "Si", "Li"], seed=0, channels=8)
    return save_model(potential, tmp_path / "model.safetensors")


def test_every_structure_gets_its_labels_in_order(app, model, tmp_path):
    source, out = tmp_path / "in.extxyz", tmp_path / "out.extxyz"
    frames = [molecule("CH3CH2OH"), bulk("Si"), Atoms("O"), bulk("Si", cubic=True), molecule("H2O")]
    frames[0].info["note"] = "kept"
    frames[0].info["stress"] = np.eye(3)
    for frame in frames:
        frame.rattle(0.1, seed=1)
    write(source, frames)
    result = RUNNER.invoke(app, [str(model), str(source), "--out", str(out), "--atoms-per-batch", "11"])
    assert result.exit_code == 0, result.output
    assert "5 structures with 23 atoms" in result.output
    potential = cliffordstf.model.shipped.open_model(model)[0].double()
    for before, after in zip(read(source, ":"), read(out, ":"), strict=True):
        expected = potential.predict(before)
        assert after.get_chemical_formula() == before.get_chemical_formula()
        assert after.get_potential_energy() == pytest.approx(float(expected.energy), abs=1e-7)
        np.testing.assert_allclose(after.get_forces(), expected.forces, atol=1e-7)
        assert ("stress" in after.calc.results) == bool(before.pbc.all())
        if before.pbc.all():
            np.testing.assert_allclose(after.get_stress(voigt=False), expected.stress[0], atol=1e-7)
    assert read(out, 0).info["note"] == "kept"


def test_labels_of_real_data_are_replaced(app, model, tmp_path, real_data):
    source, out = real_data / "acac" / "test_dihedral.xyz", tmp_path / "out.extxyz"
    result = RUNNER.invoke(app, [str(model), str(source), "--out", str(out)])
    assert result.exit_code == 0, result.output
    before, after = read(source, ":"), read(out, ":")
    assert len(after) == len(before) > 10
    for old, new in zip(before, after, strict=True):
        np.testing.assert_allclose(new.positions, old.positions, atol=1e-7)
        # Real energies are thousands of eV below those of an untrained model without reference energies.
        assert abs(new.get_potential_energy()) < 100
        assert new.get_forces().shape == old.positions.shape


def test_errors_name_file_and_structure_and_leave_no_output(app, model, tmp_path):
    source, out = tmp_path / "in.extxyz", tmp_path / "out.extxyz"
    command = [str(model), str(source), "--out", str(out)]

    def error() -> BaseException | None:
        return RUNNER.invoke(app, command).exception

    assert isinstance(error(), DataError)
    assert "does not exist" in str(error())
    write(source, [molecule("H2O"), molecule("NH3")])
    assert isinstance(error(), UnknownElementError)
    assert "in.extxyz, frame 1 holds N" in str(error())
    broken = molecule("H2O")
    broken.positions[0] = np.nan
    write(source, [molecule("H2O"), broken])
    assert isinstance(error(), StructureError)
    assert "frame 1" in str(error())
    source.write_text("3\nbroken\nH 0 0\n")
    assert isinstance(error(), DataError)
    assert "cannot be read as extended XYZ at frame 0" in str(error())
    command[0] = "no-such-model"
    assert isinstance(error(), ModelFileError)
    assert not out.exists()
