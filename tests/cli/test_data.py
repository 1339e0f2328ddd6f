import json

import ase.io
import pytest
from ase.build import molecule
from typer.testing import CliRunner

from cliffordstf.cli.data import data_app
from cliffordstf.errors import ConfigError, DataError

RUNNER = CliRunner()


def test_inspect_prints_tables_and_writes_json(real_data, tmp_path):
    report = tmp_path / "report.json"
    file = str(real_data / "rmd17/rmd17_ethanol_test_01.npz")
    result = RUNNER.invoke(data_app, ["inspect", file, "--json", str(report)])
    assert result.exit_code == 0, result.output
    for text in ("revised MD17 npz", "kcal/mol", "C2H6O x 1,000", "141.1", "876.8"):
        assert text in result.output
    values = json.loads(report.read_text(encoding="utf-8"))
    assert values["baseline"]["force_mae_mev_per_a"] == pytest.approx(876.75, abs=0.1)
    assert values["source"]["keys"]["energy"] == "energies"


def test_units_keys_and_limit_are_passed_on(tmp_path):
    atoms = molecule("H2O")
    atoms.info["U0"] = -76.4
    path = tmp_path / "water [1].xyz"  # brackets are neither a pattern nor markup here
    ase.io.write(path, [atoms, atoms, atoms])
    report = tmp_path / "report.json"
    options = ["--key-energy", "U0", "--units-energy", "Hartree", "--limit", "2", "--json", str(report)]
    result = RUNNER.invoke(data_app, ["inspect", str(path), *options])
    assert result.exit_code == 0, result.output
    values = json.loads(report.read_text(encoding="utf-8"))
    assert values["structures"] == 2
    assert values["statistics"]["energy_per_atom_mean"] == pytest.approx(-76.4 * 27.211386 / 3)
    assert "duplicate: water [1].xyz, frame 0 = water [1].xyz, frame 1" in result.output
    assert "warning: no forces label was found" in result.output


def test_mistakes_are_errors_a_user_can_act_on(tmp_path):
    missing = RUNNER.invoke(data_app, ["inspect", str(tmp_path / "none.xyz")])
    assert isinstance(missing.exception, DataError)
    unit = RUNNER.invoke(data_app, ["inspect", str(tmp_path), "--units-energy", "hartre"])
    assert isinstance(unit.exception, ConfigError)
