import importlib.util
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import ClassVar

import pytest
from typer.testing import CliRunner

from cliffordstf.bench.jobs.launch import Launch, _answer, launch, run_in_processes, slurm_script, without_slurm
from cliffordstf.bench.jobs.sweep import Outcome, Sweep, read_results
from cliffordstf.bench.jobs.training_job import TrainingJob
from cliffordstf.cli.benchmarks import sweeps
from cliffordstf.cli.main import app
from cliffordstf.errors import ConfigError
from cliffordstf.train.config import load_config

COMMAND = ["cliffordstf", "bench", "rmd17", "--workers", "3", "--slurm", "--time=1:00:00", "--data", "my data"]


@pytest.fixture
def jobs(options) -> list[TrainingJob]:
    return [
        TrainingJob(f"lj-seed{seed}", {"kind": "lj"}, load_config(None, [*options, f"seed={seed}"]))
        for seed in range(3)
    ]


@pytest.fixture
def sweep(tmp_path) -> Sweep:
    return Sweep(tmp_path / "results", tmp_path / "work")


def test_two_processes_share_a_sweep(sweep, jobs):
    assert run_in_processes(sweep, jobs, 2, lambda _: None).is_done
    assert [result["seed"] for result in read_results(sweep.results)] == [0, 1, 2]


class Killed:
    """A job whose process ends without a word, as for want of memory."""

    name = "killed"
    labels: ClassVar[dict] = {}

    def settings(self) -> dict:
        return {}

    def run(self, directory, watcher):
        os._exit(9)


def test_a_process_that_dies_is_a_failure_and_no_stop(sweep, jobs):
    outcome = run_in_processes(sweep, [jobs[0], Killed()], 1, lambda _: None)
    assert not outcome.is_stopped
    assert outcome.failed == {"killed": "a process that worked on it ended with exit code 9; out of memory?"}


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_a_signal_reaches_the_processes_and_the_sweep_goes_on_later(sweep, clusters, tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        f"""
import sys
from pathlib import Path
from cliffordstf.bench.jobs.training_job import TrainingJob
from cliffordstf.bench.jobs.launch import run_in_processes
from cliffordstf.bench.jobs.sweep import Sweep
from cliffordstf.train.config import load_config

if __name__ == "__main__":
    options = ["data.train={clusters}", "data.valid=4", "data.test=4", "model.preset=default/small", "model.channels=4"]
    configs = [load_config(None, [*options, "budget=60s", f"seed={{n}}"]) for n in (0, 1)]
    jobs = [TrainingJob(f"lj-seed{{n}}", {{}}, config) for n, config in enumerate(configs)]
    done = run_in_processes(Sweep(Path(r"{sweep.results}"), Path(r"{sweep.work}")), jobs, 2, print)
    sys.exit(143 if done.is_stopped else 0)
""",
        encoding="utf-8",
    )
    process = subprocess.Popen([sys.executable, str(script)])
    start = time.monotonic()
    while len(list(sweep.work.glob("*/history.csv"))) < 2 and time.monotonic() - start < 120:
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    assert len(list(sweep.work.glob("*/last.ckpt"))) == 2
    assert not list(sweep.results.glob("*.json"))


def test_slurm_tasks_run_the_same_command_in_one_process():
    assert without_slurm(COMMAND) == ["cliffordstf", "bench", "rmd17", "--data", "my data"]
    script = slurm_script(Launch(workers=3, slurm="--time=1:00:00 -p gpu --comment='two words'"), COMMAND)
    lines = script.splitlines()
    assert lines[0] == "#!/bin/sh"
    assert lines[1] == "#SBATCH --array=1-3 --signal=TERM@60 --requeue --time=1:00:00 -p gpu '--comment=two words'"
    assert lines[-4] == "srun cliffordstf bench rmd17 --data 'my data'"


def test_a_slurm_task_gets_the_cores_that_were_asked_for(tmp_path):
    script = tmp_path / "sweep.sbatch"
    script.write_text(slurm_script(Launch(slurm="--cpus-per-task=4"), COMMAND))
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\necho "cores: $SRUN_CPUS_PER_TASK"\n')
    srun.chmod(0o755)
    for asked, said in (({"SLURM_CPUS_PER_TASK": "4"}, "cores: 4"), ({}, "cores: ")):
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **asked}
        done = subprocess.run(["sh", str(script)], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == [said]


@pytest.mark.parametrize(("code", "said"), [(143, "requeue 5_2\n"), (0, ""), (1, "")])
def test_a_slurm_task_that_was_stopped_is_requeued(tmp_path, code, said):
    script = tmp_path / "sweep.sbatch"
    script.write_text(slurm_script(Launch(slurm=""), COMMAND))
    for name, line in (("srun", f"exit {code}"), ("scontrol", 'echo "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "SLURM_ARRAY_JOB_ID": "5",
        "SLURM_ARRAY_TASK_ID": "2",
    }
    done = subprocess.run(["sh", str(script)], check=False, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (code, said)


def test_the_script_is_submitted_and_refusals_are_told(sweep, jobs, tmp_path, monkeypatch):
    tools = tmp_path / "bin"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))  # and no other folder: SLURM may be installed here
    how = Launch(slurm="--time=1")
    with pytest.raises(ConfigError, match="sbatch is not on this machine"):
        launch(sweep, jobs, how, lambda _: None, None, COMMAND)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}/usr/bin{os.pathsep}/bin")
    (tools / "sbatch").write_text('#!/bin/sh\ngrep -q "time=1" "$1" && echo "Submitted batch job 7"\n')
    (tools / "sbatch").chmod(0o755)
    said = []
    assert launch(sweep, jobs, how, said.append, None, COMMAND).is_stopped
    assert said[0].startswith("Submitted batch job 7")
    (tools / "sbatch").write_text('#!/bin/sh\necho "invalid partition" >&2\nexit 1\n')
    with pytest.raises(ConfigError, match="invalid partition"):
        launch(sweep, jobs, how, lambda _: None, None, COMMAND)


def test_ray_runs_the_sweep_or_says_how_to_get_it(sweep, jobs, monkeypatch):
    if importlib.util.find_spec("ray") is None:
        with pytest.raises(ConfigError, match="pip install ray"):
            launch(sweep, jobs, Launch(ray="local"), lambda _: None, None, COMMAND)
        pytest.skip("ray is not installed")
    cores, said = os.cpu_count() or 1, []
    monkeypatch.setenv("OMP_NUM_THREADS", str(cores))
    assert launch(sweep, jobs, Launch(ray="local"), said.append, None, COMMAND).is_done
    assert [result["machine"]["threads"] for result in read_results(sweep.results)] == [cores] * 3
    assert said[0] == f"3 jobs on Ray, {cores} of its {cores} cores each"
    monkeypatch.setenv("OMP_NUM_THREADS", str(cores + 1))
    with pytest.raises(ConfigError, match=f"asks for {cores + 1} cores a job"):
        launch(sweep, jobs, Launch(ray="local"), said.append, None, COMMAND)


class DeadWorkerError(Exception):
    """Stands for Ray's."""


class Ray:
    """As much of Ray as a task that is gone needs."""

    exceptions = SimpleNamespace(RayError=DeadWorkerError)

    def get(self, task):
        raise DeadWorkerError(task)


@pytest.mark.parametrize(
    ("message", "said"), [("The worker died.\nlog: …", "The worker died."), ("", "DeadWorkerError")]
)
def test_a_ray_worker_that_dies_is_a_failed_job(message, said):
    outcome = _answer(Ray(), message, "lj-seed0")
    assert outcome.failed == {"lj-seed0": f"its Ray worker failed ({said}); out of memory?"}


def test_slurm_is_told_the_interpreter_that_has_the_package(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(sweeps, "launch", lambda *words: asked.append(words[-1]) or Outcome(is_stopped=True))
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/cliffordstf", "bench", "physics", "--models", "default"])
    words = ["bench", "physics", "--models", "default", "--slurm", "", "--results", str(tmp_path)]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert asked == [[sys.executable, "-m", "cliffordstf", "bench", "physics", "--models", "default"]]


def test_both_at_once_are_refused():
    with pytest.raises(ConfigError, match="not both"):
        Launch(slurm="", ray="auto")
