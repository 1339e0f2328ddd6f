"""Where the jobs of a sweep run: in this process, in several on this machine, under SLURM, or on a Ray cluster.

However many processes there are, they share the sweep's folders, and its locks keep them apart (`bench.jobs.sweep`).
"""

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch

from cliffordstf.bench.jobs.progress_lines import ProgressLines
from cliffordstf.bench.jobs.sweep import Job, Outcome, Sweep
from cliffordstf.errors import ConfigError
from cliffordstf.host.files import write_text
from cliffordstf.train.run import Watcher

Say = Callable[[str], None]
STOPPED = 143
"""Exit code of a sweep that a signal stopped."""


@dataclass(frozen=True)
class Launch:
    """How to run a sweep.

    Attributes:
        workers: Processes, which share this machine's cores; array tasks under SLURM.
        slurm: Options of sbatch, such as `--time=4:00:00 --cpus-per-task=4`; None for no SLURM.
        ray: Address of a Ray cluster, `auto` for the one of this machine; None for no Ray.
    """

    workers: int = 1
    slurm: str | None = None
    ray: str | None = None

    def __post_init__(self) -> None:
        if self.slurm is not None and self.ray is not None:
            raise ConfigError("a sweep runs under SLURM or on Ray, not both; leave out --slurm or --ray.")


def launch(
    sweep: Sweep, jobs: Sequence[Job], how: Launch, say: Say, watcher: Watcher | None, command: Sequence[str]
) -> Outcome:
    """Run a sweep, or only submit it.

    Args:
        sweep: Folders.
        jobs: What to run.
        how: Where.
        say: Told one line at a time.
        watcher: Of the runs in this process.
        command: The command line that asked for this sweep, to be run again by SLURM's tasks.
    """
    if how.slurm is not None:
        submit_to_slurm(how, sweep.work, command, say)
        return Outcome(is_stopped=True)
    if how.ray is not None:
        return run_on_ray(sweep, jobs, how.ray, say)
    if how.workers == 1:
        return sweep.run(jobs, say, watcher)
    return run_in_processes(sweep, jobs, how.workers, say)


ATTEMPTS = 3
"""Processes that may die at one job before it counts as failed."""


def run_in_processes(sweep: Sweep, jobs: Sequence[Job], workers: int, say: Say) -> Outcome:
    """Several processes on this machine, each with its share of the cores; a signal is handed on to them.

    A process that dies is replaced, and the job that it was at is done again.
    """
    threads = max(1, (os.cpu_count() or 1) // workers)
    spawn, since = get_context("spawn"), time.time()
    say(f"{len(jobs)} jobs on {workers} processes with {threads} threads each")

    def start() -> Any:
        process = spawn.Process(target=_work, args=(sweep, jobs, threads, since))
        # OpenMP reads its number of threads when it is loaded, before a new process can say anything.
        with _environment(OMP_NUM_THREADS=str(threads)):
            process.start()
        return process

    crew = [start() for _ in range(workers)]
    is_stopped = False

    def stop(*_: Any) -> None:
        nonlocal is_stopped
        is_stopped = True
        for process in crew:
            process.terminate()

    deaths: Counter[str | None] = Counter()
    reason = ""
    with on_signals(stop):
        while crew:
            wait([process.sentinel for process in crew])
            for process in [process for process in crew if process.exitcode is not None]:
                crew.remove(process)
                if process.exitcode in (0, STOPPED, -signal.SIGTERM):
                    is_stopped |= process.exitcode != 0
                    continue
                reason = f"a process that worked on it ended with exit code {process.exitcode}; out of memory?"
                job = sweep.left_by(process.pid, jobs, since)
                name = None if job is None else job.name
                deaths[name] += 1
                if job is not None and deaths[name] == ATTEMPTS:
                    sweep.fail(job, reason)
                if not is_stopped and (job is not None or deaths[name] < ATTEMPTS):
                    say(f"{name or 'a process'}: {reason} Another one takes its place.")
                    crew.append(start())
    left = {job.name: reason for job in jobs if reason and not sweep.result_file(job).is_file()}
    return Outcome(is_stopped, {**({} if is_stopped else left), **sweep.failures(jobs, since)})


def _work(sweep: Sweep, jobs: Sequence[Job], threads: int, since: float) -> None:
    torch.set_num_threads(threads)
    if sweep.run(jobs, _print, ProgressLines(_print), since).is_stopped:
        raise SystemExit(STOPPED)


def _print(text: str) -> None:
    print(text, flush=True)


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def on_signals(action: Callable[..., None]) -> Iterator[None]:
    """Do something when this process is asked to stop, instead of stopping."""
    before = {number: signal.signal(number, action) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def submit_to_slurm(how: Launch, work: Path, command: Sequence[str], say: Say) -> Path:
    """Write a batch script whose array tasks each run the same command, and submit it.

    Raises:
        ConfigError: There is no sbatch here, or it refuses the script.
    """
    script = work / "sweep.sbatch"
    write_text(script, slurm_script(how, command))
    if shutil.which("sbatch") is None:
        raise ConfigError(f"sbatch is not on this machine; the script is {script}, submit it where SLURM runs.")
    done = subprocess.run(["sbatch", str(script)], check=False, capture_output=True, text=True)
    if done.returncode:
        raise ConfigError(f"sbatch refused {script}: {done.stderr.strip()}")
    say(f"{done.stdout.strip()}; the same command without --slurm prints the table when the jobs are done")
    return script


def slurm_script(how: Launch, command: Sequence[str]) -> str:
    """The batch script. A task that runs out of time gets SIGTERM a minute before, saves its work and is requeued."""
    # All on one line: an option of one letter stands apart from its value.
    options = [f"--array=1-{how.workers}", "--signal=TERM@60", "--requeue", *shlex.split(how.slurm or "")]
    header = [f"#SBATCH {shlex.join(options)}"]
    body = [
        # Since SLURM 22.05 srun does not take over what sbatch was asked for.
        '[ -n "$SLURM_CPUS_PER_TASK" ] && export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"',
        f"srun {shlex.join(without_slurm(command))}",
        "code=$?",
        # SLURM itself requeues after a failure of a machine only.
        f'[ $code -eq {STOPPED} ] && scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"',
        "exit $code",
    ]
    return "\n".join(["#!/bin/sh", *header, *body, ""])


def without_slurm(command: Sequence[str]) -> list[str]:
    """The command line of one array task: what it was, in one process and without SLURM."""
    kept: list[str] = []
    words = iter(command)
    for word in words:
        if word in ("--slurm", "--workers"):
            next(words, None)
        elif not word.startswith(("--slurm=", "--workers=")):
            kept.append(word)
    return kept


def run_on_ray(sweep: Sweep, jobs: Sequence[Job], address: str, say: Say) -> Outcome:
    """Every job is a task of a Ray cluster whose machines see this folder, and the data, under the same path.

    It gets as many cores as OMP_NUM_THREADS says, one by default, and a GPU if the cluster has any.

    Raises:
        ConfigError: Ray is not installed.
    """
    try:
        import ray  # noqa: PLC0415 - an extra that only this needs
    except ImportError:
        raise ConfigError("Ray is not installed; install it with 'pip install ray'.") from None
    ours = {name: value for name, value in os.environ.items() if name.startswith("CLIFFORDSTF_")}
    ray.init(address=None if address == "local" else address, log_to_driver=False)
    try:
        cluster, threads = ray.cluster_resources(), _threads()
        if threads > cluster.get("CPU", 0):
            raise ConfigError(
                f"OMP_NUM_THREADS asks for {threads} cores a job and the whole Ray cluster has "
                f"{cluster.get('CPU', 0):g}; ask for fewer."
            )
        gpus = 1 if cluster.get("GPU") else 0
        # A job is done again when its worker dies.
        task = ray.remote(num_cpus=threads, num_gpus=gpus, max_retries=ATTEMPTS - 1)(_one)
        waiting = {task.remote(sweep, job, os.getcwd(), ours, threads): job.name for job in jobs}
        say(f"{len(jobs)} jobs on Ray, {threads} of its {cluster.get('CPU', 0):g} cores each")
        outcome = Outcome()
        while waiting:
            (done,), _ = ray.wait(list(waiting), num_returns=1)
            name = waiting.pop(done)
            found = _answer(ray, done, name)
            outcome = Outcome(outcome.is_stopped or found.is_stopped, {**outcome.failed, **found.failed})
            how = "stopped" if found.is_stopped else "failed" if found.failed else "done"
            if found.failed or not sweep.failures_only:
                say(f"{name}: {how}, {len(waiting)} left")
        return outcome
    finally:
        ray.shutdown()


def _answer(ray: Any, task: Any, name: str) -> Outcome:
    """What became of a job; a worker that died is no reason to leave the others."""
    try:
        found: Outcome = ray.get(task)
    except ray.exceptions.RayError as error:
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        return Outcome(failed={name: f"its Ray worker failed ({said}); out of memory?"})
    return found


def _threads() -> int:
    """Cores of a job on Ray."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else 1


def _one(sweep: Sweep, job: Job, folder: str, environment: dict[str, str], threads: int) -> Outcome:
    """A job, in the folder that paths are relative to, with the variables that name models and interpreters."""
    os.chdir(folder)
    os.environ.update(environment)
    torch.set_num_threads(threads)
    return sweep.run([job], lambda _: None)
