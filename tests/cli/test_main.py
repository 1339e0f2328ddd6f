import subprocess
import sys

from typer.testing import CliRunner

from cliffordstf import __version__
from cliffordstf.cli.main import app
from cliffordstf.model.presets import PRESETS

RUNNER = CliRunner()


def test_version():
    assert RUNNER.invoke(app, ["--version"]).output.strip() == f"cliffordstf {__version__}"


def test_presets_lists_every_preset_with_its_size():
    result = RUNNER.invoke(app, ["presets"])
    assert result.exit_code == 0
    for name in PRESETS:
        assert name in result.output
    assert "1,019,274" in result.output


def test_one_preset_is_shown_with_blocks():
    result = RUNNER.invoke(app, ["presets", "paper/full"])
    assert "many-body products" in result.output
    assert "1,056,534" in result.output


def test_errors_are_one_line_without_traceback():
    command = [sys.executable, "-c", "from cliffordstf.cli.main import run; run()", "presets", "paper/fool"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("error: there is no preset 'paper/fool' (did you mean 'paper/full'?)")
    assert "Traceback" not in result.stderr
