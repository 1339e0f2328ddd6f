"""How commands that go through many structures divide them into shards, run these and join the results."""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from cliffordstf.bench.jobs.launch import STOPPED, Launch, launch
from cliffordstf.bench.jobs.sweep import Sweep
from cliffordstf.errors import ConfigError
from cliffordstf.screening.plan import Plan, Totals

PANEL = "Many structures"


def _option(text: str, **limits: int) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(help=text, rich_help_panel=PANEL, **limits)  # type: ignore[arg-type]
    return found


ShardSize = Annotated[int, _option("Structures of a shard, which is in memory at once and done once.", min=1)]
Work = Annotated[
    Path | None, _option("Folder of the shards that are done; by default beside the output, and removed in the end.")
]
Workers = Annotated[int, _option("Processes on this machine; array tasks with --slurm.", min=1)]
Slurm = Annotated[str | None, _option("Submit to SLURM with these options of sbatch; needs --work.")]
Ray = Annotated[str | None, _option("Run on a Ray cluster: its address, auto, or local.")]
Table = Annotated[Path | None, typer.Option("--csv", help="CSV file with one row a structure.", rich_help_panel=PANEL)]
SHARD_SIZE = 1000


@dataclass(frozen=True)
class Spread:
    """Where shards are done.

    Attributes:
        work: Folder of what is done; None for one beside the output.
        workers, slurm, ray: See `Launch`.
    """

    work: Path | None = None
    workers: int = 1
    slurm: str | None = None
    ray: str | None = None

    def folder(self, out: Path) -> Path:
        """The work folder.

        Raises:
            ConfigError: Tasks of SLURM would not know when it may be removed.
        """
        if self.work is None and self.slurm is not None:
            raise ConfigError("tasks of SLURM share a folder that is kept until all have ended; name it with --work.")
        return self.work or out.with_name(f"{out.name}.work")


def run_plan(plan: Plan, spread: Spread, console: Console, what: str) -> Totals | None:
    """Do the shards that are not done yet and join them all.

    Args:
        plan: What to do.
        spread: Where.
        console: For what is printed.
        what: Word of the bar, such as `predicting`.

    Returns:
        Totals; None if other processes are at some shards, or SLURM will do them.
    """
    how = Launch(spread.workers, spread.slurm, spread.ray)
    is_new = not plan.work.exists()
    try:
        jobs = plan.jobs()
        done = len(jobs) - len(plan.missing(jobs))
        if done:
            console.print(f"{done} of {len(jobs)} shards were done before", highlight=False)
        is_alone = how.workers == 1 and how.ray is None and "SLURM_ARRAY_TASK_ID" not in os.environ
        sweep = Sweep(plan.results, plan.work / "jobs", failures_only=True, raises=is_alone)
        command = [sys.executable, "-m", "cliffordstf", *sys.argv[1:]]

        def say(text: str) -> None:
            console.print(escape(text), highlight=False)

        if how.slurm is not None:
            launch(sweep, jobs, how, say, None, command)
            return None
        with _bar(plan.results, len(jobs), what):
            outcome = launch(sweep, plan.missing(jobs), how, say, None, command)
        outcome.check(len(jobs))
        if outcome.is_stopped:
            raise typer.Exit(STOPPED)
    except BaseException:
        if is_new and not any(plan.results.glob("*.json")):
            plan.clear()
        raise
    left = plan.missing(jobs)
    totals = None if left else plan.join(jobs)
    if totals is None:
        console.print(f"{len(jobs) - len(left)} of {len(jobs)} shards are done; other processes are at the rest")
    elif spread.work is None:
        plan.clear()
    return totals


def print_totals(console: Console, totals: Totals, files: Sequence[Path | None]) -> None:
    """How much was done, and where it is."""
    console.print(f"{totals.structures} structures with {totals.atoms} atoms in all", highlight=False)
    for file in files:
        if file is not None:
            console.print(f"written to {file}", highlight=False)


@contextmanager
def _bar(results: Path, total: int, what: str) -> Iterator[None]:
    """A bar of the shards that are done, by whatever process."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("shards"))
    clocks = (TimeElapsedColumn(), TimeRemainingColumn())
    ended = threading.Event()
    with Progress(*columns, *clocks, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)

        def watch() -> None:
            while not ended.wait(0.5):
                progress.update(task, completed=sum(1 for _ in results.glob("*.json")))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
