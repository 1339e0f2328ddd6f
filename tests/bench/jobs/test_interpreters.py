"""A model whose package only another interpreter has: that interpreter is a script around this one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cliffordstf.bench.jobs import interpreters as module
from cliffordstf.bench.jobs.interpreters import PlacedJob, interpreter_for, interpreters, missing
from cliffordstf.bench.jobs.remote_worker import main
from cliffordstf.bench.jobs.sweep import Sweep, read_results
from cliffordstf.bench.jobs.training_job import TrainingJob
from cliffordstf.cli.main import app
from cliffordstf.errors import ConfigError
from cliffordstf.model import family
from cliffordstf.train.config import load_config
from cliffordstf.version import __version__

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the other interpreter is a shell script")

FAMILY = """
import importlib

import torch
from torch import nn

from cliffordstf.model.family import Family, FamilyConfig, register
from cliffordstf.model.output import ModelOutput


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.depth = nn.Parameter(torch.ones(()))

    def forward(self, batch, species):
        bonds = self.depth * torch.exp(-batch.vectors().norm(dim=1)) * importlib.import_module("only_there").FACTOR
        return ModelOutput(bonds.new_zeros(len(species)).index_add(0, batch.receivers, bonds))


def load():
    importlib.import_module("only_there")


register(Family(("only-there",), load, FamilyConfig, Model, {"distant": {}}))
"""


@pytest.fixture
def known(tmp_path, monkeypatch) -> None:
    """The model `distant`, known here and to processes that are started, whose package is not here."""
    file = tmp_path / "distant_family.py"
    file.write_text(FAMILY, encoding="utf-8")
    monkeypatch.setattr(family, "_family_of", dict(family._family_of))
    monkeypatch.setattr(family, "_imported", set())
    monkeypatch.setenv(family.OWN, str(file))
    monkeypatch.setattr(module, "_answers", {})


@pytest.fixture
def there(known, tmp_path, monkeypatch) -> str:
    """An interpreter that has the package."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "only_there.py").write_text("FACTOR = 1.0\n", encoding="utf-8")
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec "{sys.executable}" "$@"\n', "utf-8")
    script.chmod(0o755)
    monkeypatch.setenv(module.PYTHONS, str(script))
    return str(script)


@pytest.fixture
def distant(options) -> TrainingJob:
    chosen = [text for text in options if not text.startswith("model.")]
    return TrainingJob("distant-seed0", {"model": "distant"}, load_config(None, [*chosen, "model.preset=distant"]))


def test_a_job_is_done_by_the_interpreter_that_has_the_package(there, distant, tmp_path, capfd):
    sweep = Sweep(tmp_path / "results", tmp_path / "work")
    assert sweep.run([PlacedJob(distant)], lambda _: None).is_done
    (result,) = read_results(sweep.results)
    assert result["model"] == "distant"
    assert result["parameters"] == 1
    assert result["metrics"]["force_mae_mev_per_a"] > 0
    assert "distant-seed0: 1 parameters, 16 structures" in capfd.readouterr().out


def test_what_this_interpreter_can_do_stays_here(known, monkeypatch):
    monkeypatch.setenv(module.PYTHONS, "/no/such/python")
    assert interpreter_for(["default", "ictp-l1"]) is None
    assert missing(["default", "ictp-l1"]) == {}


def test_who_has_it_is_asked_once(there, monkeypatch):
    assert missing(["distant", "default"]) == {}
    monkeypatch.setattr(subprocess, "run", None)
    assert interpreter_for(["distant", "default"]) == there


def test_without_another_interpreter_the_reason_is_what_is_missing_here(known, monkeypatch):
    monkeypatch.setenv(module.PYTHONS, "")
    assert list(missing(["distant", "default"])) == ["distant"]
    with pytest.raises(ConfigError, match=r"the peer 'distant' needs only-there, .*'make peers'"):
        interpreter_for(["distant"])


def test_an_interpreter_without_this_package_is_named(known, monkeypatch, tmp_path):
    bare = tmp_path / "bare"
    bare.write_text("#!/bin/sh\necho no module >&2\nexit 1\n", encoding="utf-8")
    bare.chmod(0o755)
    for python in (str(bare), "/no/such/python"):
        monkeypatch.setenv(module.PYTHONS, python)
        with pytest.raises(ConfigError, match=f"{python} cannot run cliffordstf .*; make it again with 'make peers'"):
            interpreter_for(["distant"])


def test_the_environment_of_make_peers_is_found_in_the_project_alone(tmp_path, monkeypatch):
    """The current folder may be anybody's: what lies there is not run."""
    monkeypatch.delenv(module.PYTHONS)
    planted = tmp_path / "elsewhere" / ".venv-peers" / "bin" / "python"
    project = tmp_path / "project"
    ours = project / ".venv-peers" / "bin" / "python"
    for python in (planted, ours):
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(module, "PROJECT", project)
    monkeypatch.setattr(module, "USUAL", ours)
    assert interpreters() == []  # an installed package has no project around it
    (project / "pyproject.toml").write_text("")
    assert interpreters() == [str(ours)]


def test_a_failure_there_is_told_here(there, distant, tmp_path):
    wrong = TrainingJob(
        distant.name, distant.labels, distant.config.model_copy(update={"model": {"preset": "distant", "x": 1}})
    )
    outcome = Sweep(tmp_path / "results", tmp_path / "work").run([PlacedJob(wrong)], lambda _: None)
    assert "there is no option 'model.x'" in outcome.failed["distant-seed0"]


def test_the_command_line_hands_jobs_over(there, clusters, tmp_path):
    folders = ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    done = CliRunner().invoke(
        app, ["bench", "scaling", "--data", str(clusters), "--steps", "12", "--models", "distant", *folders]
    )
    assert done.exit_code == 0, done.output
    (result,) = read_results(tmp_path / "results")
    assert (result["model"], result["parameters"]) == ("distant", 1)


SCRIPT = """
import sys
from pathlib import Path
from cliffordstf.bench.jobs.training_job import TrainingJob
from cliffordstf.bench.jobs.interpreters import PlacedJob
from cliffordstf.bench.jobs.sweep import Sweep
from cliffordstf.train.config import load_config

job = TrainingJob("distant-seed0", {{"model": "distant"}}, load_config(None, {options!r}))
done = Sweep(Path("results"), Path("work")).run([PlacedJob(job)], print)
sys.exit(143 if done.is_stopped else 0)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stop_reaches_the_other_process_and_the_run_goes_on_later(there, options, tmp_path, number):
    chosen = [text for text in options if not text.startswith(("model.", "epochs", "budget"))]
    endless = [*chosen, "model.preset=distant", "budget=100s"]
    (tmp_path / "run.py").write_text(SCRIPT.format(options=endless), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(module.__file__).parents[3])}
    process = subprocess.Popen([sys.executable, "run.py"], cwd=tmp_path, env=environment)
    folder = tmp_path / "work" / "distant-seed0"
    _wait_for((folder / "history.csv").is_file)
    process.send_signal(number)
    assert process.wait(timeout=60) == (143 if number == signal.SIGTERM else -9)
    rows = _rows_when_quiet(folder / "history.csv")
    assert (folder / "last.ckpt").is_file()
    assert not (tmp_path / "results").exists() or not list((tmp_path / "results").iterdir())
    assert rows > 1


def _wait_for(is_true) -> None:
    start = time.monotonic()
    while not is_true():
        assert time.monotonic() - start < 120
        time.sleep(0.2)


def _rows_when_quiet(history: Path) -> int:
    """Rows of a history that nobody writes any more."""
    before = -1
    start = time.monotonic()
    while (rows := len(history.read_text(encoding="utf-8").splitlines())) != before:
        assert time.monotonic() - start < 60, "the run goes on"
        before = rows
        time.sleep(3)
    return rows


def test_the_remote_worker_prints_its_usage(capsys):
    assert main(["dance"]) == 2
    assert "models NAME" in capsys.readouterr().err
    assert main(["models", "ictp-l1"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": __version__, "models": {"ictp-l1": None}}


def test_another_version_there_is_refused(known, tmp_path, monkeypatch):
    script = tmp_path / "python"
    script.write_text('#!/bin/sh\necho \'{"version": "0.0.1", "models": {"distant": null}}\'\n', "utf-8")
    script.chmod(0o755)
    monkeypatch.setenv(module.PYTHONS, str(script))
    with pytest.raises(ConfigError, match=r"has cliffordstf 0\.0\.1 and this is .*; install the same version there"):
        interpreter_for(["distant"])


def test_an_installed_package_does_not_bring_its_neighbours_along(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", "mine")
    assert module._environment()["PYTHONPATH"].split(os.pathsep)[1:] == ["mine"]
    monkeypatch.setattr(
        module, "__file__", str(tmp_path / "site-packages" / "cliffordstf" / "bench" / "jobs" / "interpreters.py")
    )
    assert module._environment()["PYTHONPATH"] == "mine"
