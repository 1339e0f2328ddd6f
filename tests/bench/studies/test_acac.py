import numpy as np
import pytest
from ase import Atoms
from ase.calculators.lj import LennardJones
from ase.io import read, write
from typer.testing import CliRunner

from cliffordstf.bench.jobs.sweep import read_results
from cliffordstf.bench.studies.acac import TESTS, acac_job, acac_table, scan_error
from cliffordstf.cli.main import app
from cliffordstf.errors import DataError


@pytest.fixture
def folder(tmp_path, clusters):
    """The layout of the set, with clusters of argon in place of the molecule; the scans carry energies only."""
    free = Atoms("Ar")
    free.calc = LennardJones()
    free.get_potential_energy()
    write(tmp_path / "isolated_atoms.xyz", [free], format="extxyz")
    labelled = read(clusters, ":")
    write(tmp_path / "train_300K.xyz", labelled * 3, format="extxyz")
    for name in TESTS.values():
        images = [image.copy() for image in labelled[:6]]
        for image, source in zip(images, labelled, strict=False):
            image.info["energy"] = source.get_potential_energy()
            if "MD" in name:
                image.arrays["forces"] = source.get_forces()
        write(tmp_path / name, images, format="extxyz")
    return tmp_path


def test_the_command_trains_and_tests_on_every_file(folder, tmp_path):
    folders = ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    small = ["--recipe", "tiny", "model.preset=default/small", "model.channels=4", "epochs=1"]
    result = CliRunner().invoke(app, ["bench", "acac", "--data", str(folder), *folders, *small])
    assert result.exit_code == 0, result.output
    (found,) = read_results(tmp_path / "results")
    assert set(found["tests"]) == set(TESTS)
    assert found["config"]["data"]["reference"] == {"Ar": 0.0}
    scan = found["tests"]["H transfer"]
    assert scan["force_mae_mev_per_a"] is None
    assert len(scan["energy_ev"]) == 6
    rows = acac_table([found]).rows
    assert rows[0][0] == "tiny, 20 min, seed 0"
    assert rows[1][0] == "baseline"
    assert all(rows[0][1:])


def test_a_scan_is_measured_from_its_lowest_point():
    true = np.array([0.3, 0.0, 0.1])
    shifted = {"energy_ev": list(true + 7), "energy_label_ev": list(true)}
    assert scan_error(shifted) == pytest.approx(0, abs=1e-9)
    flat = {"energy_ev": [1.0, 1.0, 1.0], "energy_label_ev": list(true)}
    assert scan_error(flat) == pytest.approx(1000 * 0.4 / 3)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"train_300K\.xyz"):
        acac_job(tmp_path)
