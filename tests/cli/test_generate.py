import builtins
import sys

import pytest
import typer
from ase.io import read
from typer.testing import CliRunner

from cliffordstf.cli.generate import generate
from cliffordstf.errors import ConfigError, DataError

RUNNER = CliRunner()


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(generate)
    return app


def test_frames_are_written(app, tmp_path):
    pytest.importorskip("tblite")
    out = tmp_path / "data.extxyz.xz"
    options = [
        "--temperatures",
        "300,500",
        "--frames",
        "4",
        "--equilibration",
        "5",
        "--isolated-atoms",
        "--out",
        str(out),
    ]
    result = RUNNER.invoke(app, ["H2O", *options])
    assert result.exit_code == 0, result.output
    assert "4 frames and 2 isolated atoms" in result.output
    assert "eV/atom" in result.output
    frames = read(out, ":")
    assert [frame.info.get("temperature_K") for frame in frames] == [None, None, 300, 300, 500, 500]


def test_a_missing_tblite_is_one_clear_error(app, tmp_path, monkeypatch):
    original = builtins.__import__

    def refuse(name: str, *rest: object, **more: object) -> object:
        if name.startswith("tblite"):
            raise ImportError(name)
        return original(name, *rest, **more)

    for name in [name for name in sys.modules if name.startswith("tblite")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", refuse)
    result = RUNNER.invoke(app, ["H2O", "--out", str(tmp_path / "data.extxyz")])
    assert isinstance(result.exception, ConfigError)
    assert "pip install 'cliffordstf[generate]'" in str(result.exception)


def test_mistakes_are_found_before_the_work(app, tmp_path):
    result = RUNNER.invoke(app, ["CH3CH2OHH", "--out", str(tmp_path / "data.extxyz")])
    assert isinstance(result.exception, DataError)
    assert "(did you mean 'CH3CH2OH'?)" in str(result.exception)
    result = RUNNER.invoke(app, ["H2O", "--temperatures", "300;500"])
    assert "separated by commas" in str(result.exception)
    result = RUNNER.invoke(app, ["H2O", "--out", str(tmp_path / "data.csv")])
    assert "must end in one of .extxyz" in str(result.exception)
