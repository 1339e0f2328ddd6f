from typer.testing import CliRunner

from cliffordstf.cli.main import app


def test_demo_runs_end_to_end(tmp_path):
    """The real demo with seconds instead of minutes: table with the baseline, dynamics, picture, report."""
    arguments = ["demo", "--out", str(tmp_path / "demo"), "--budget", "3s", "--md-steps", "10"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "baseline" in result.output
    assert "Clifford + STF" in result.output
    assert "meV/atom/ps" in result.output
    for name in ("summary.png", "report/index.html", "model-2/model.safetensors", "md.csv"):
        assert (tmp_path / "demo" / name).is_file()
