"""Where the jobs of a sweep run: in this process, in several on this machine, under SLURM, or on a Ray cluster.

However many processes there are, they share the sweep's folders, and its locks keep them apart (`bench.sweep`).
"""

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from cliffordstf.bench.sweep import Job, Sweep
from cliffordstf.errors import ConfigError
from cliffordstf.train.run import Watcher

Say = Callable[[str], None]


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
) -> bool:
    """Run a sweep; False if it is not done when this returns, because it was stopped or only submitted.

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
        return False
    if how.ray is not None:
        return run_on_ray(sweep, jobs, how.ray, say)
    if how.workers == 1:
        return sweep.run(jobs, say, watcher)
    return run_in_processes(sweep, jobs, how.workers, say)


def run_in_processes(sweep: Sweep, jobs: Sequence[Job], workers: int, say: Say) -> bool:
    """Several processes on this machine, each with its share of the cores; a signal is handed on to them."""
    threads = max(1, (os.cpu_count() or 1) // workers)
    spawn = get_context("spawn")
    processes = [spawn.Process(target=_work, args=(sweep, jobs, threads)) for _ in range(workers)]
    say(f"{len(jobs)} jobs on {workers} processes with {threads} threads each")
    # OpenMP reads its number of threads when it is loaded, before a new process can say anything.
    with _environment(OMP_NUM_THREADS=str(threads)):
        for process in processes:
            process.start()

    def stop(*_: Any) -> None:
        for process in processes:
            process.terminate()

    with _on_signals(stop):
        for process in processes:
            process.join()
    return all(process.exitcode == 0 for process in processes)


def _work(sweep: Sweep, jobs: Sequence[Job], threads: int) -> None:
    torch.set_num_threads(threads)
    if not sweep.run(jobs, lambda text: print(text, flush=True)):
        raise SystemExit(143)


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
def _on_signals(action: Callable[..., None]) -> Iterator[None]:
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
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(slurm_script(how, command), encoding="utf-8")
    if shutil.which("sbatch") is None:
        raise ConfigError(f"sbatch is not on this machine; the script is {script}, submit it where SLURM runs.")
    done = subprocess.run(["sbatch", str(script)], check=False, capture_output=True, text=True)
    if done.returncode:
        raise ConfigError(f"sbatch refused {script}: {done.stderr.strip()}")
    say(f"{done.stdout.strip()}; the same command without --slurm prints the table when the jobs are done")
    return script


def slurm_script(how: Launch, command: Sequence[str]) -> str:
    """The batch script. A task that runs out of time gets SIGTERM a minute before, and writes a checkpoint."""
    options = shlex.split(how.slurm or "")
    header = [f"#SBATCH {option}" for option in (f"--array=1-{how.workers}", "--signal=TERM@60", "--requeue", *options)]
    return "\n".join(["#!/bin/sh", *header, f"exec srun {shlex.join(without_slurm(command))}", ""])


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


def run_on_ray(sweep: Sweep, jobs: Sequence[Job], address: str, say: Say) -> bool:
    """Every job is a task of a Ray cluster whose machines see the sweep's folders under the same path.

    Raises:
        ConfigError: Ray is not installed.
    """
    try:
        import ray  # noqa: PLC0415 - an extra that only this needs
    except ImportError:
        raise ConfigError("Ray is not installed; install it with 'pip install ray'.") from None
    absolute = replace(sweep, results=sweep.results.resolve(), work=sweep.work.resolve())
    ray.init(address=None if address == "local" else address, log_to_driver=False)
    try:
        task = ray.remote(_one)
        waiting = {task.remote(absolute, job): job.name for job in jobs}
        say(f"{len(jobs)} jobs on Ray with {ray.cluster_resources().get('CPU', 0):g} cores")
        finished = True
        while waiting:
            (done,), _ = ray.wait(list(waiting), num_returns=1)
            name = waiting.pop(done)
            finished = ray.get(done) and finished
            say(f"{name}: done, {len(waiting)} left")
        return finished
    finally:
        ray.shutdown()


def _one(sweep: Sweep, job: Job) -> bool:
    torch.set_num_threads(1)
    return sweep.run([job], lambda _: None)
