"""What all studies of `cliffordstf bench` share: where their jobs work, how they are launched, what is printed."""

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from cliffordstf.bench.jobs.interpreters import PlacedJob
from cliffordstf.bench.jobs.launch import STOPPED, Launch, launch
from cliffordstf.bench.jobs.sweep import Job, Sweep, read_results
from cliffordstf.bench.tables.all_tables import all_tables
from cliffordstf.cli.benchmarks.bench import Results, bench_app
from cliffordstf.cli.screen import Screen

Work = Annotated[Path, typer.Option(help="Folder of the runs.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes on this machine; array tasks with --slurm.")]
Slurm = Annotated[str | None, typer.Option(help="Submit to SLURM with these options of sbatch.")]
Ray = Annotated[str | None, typer.Option(help="Run on a Ray cluster: its address, auto, or local.")]

MakeJobs = Callable[..., Sequence[Job]]


def study(
    name: str | None = None, help: str | None = None, results_folder: Path | None = None
) -> Callable[[MakeJobs], MakeJobs]:
    """Make a command of a function that turns its options into jobs: options of the sweep are added, and it is run.

    Args:
        name: Of the command and of its folders; that of the function by default.
        help: Of the command; the function's docstring by default.
        results_folder: Default folder of the results, for studies that share one; of the command's name by default.
    """

    def register(make_jobs: MakeJobs) -> MakeJobs:
        title = name or make_jobs.__name__

        def command(results: Path, work: Path, workers: int, slurm: str | None, ray: str | None, **own: Any) -> None:
            _run(make_jobs(**own), Sweep(results, work), Launch(workers, slurm, ray))

        parameters = [
            *inspect.signature(make_jobs, eval_str=True).parameters.values(),
            *_sweep_parameters(title, results_folder or Path("results") / title),
        ]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        bench_app.command(title, help=help or make_jobs.__doc__)(command)
        return make_jobs

    return register


def _sweep_parameters(title: str, results: Path) -> list[inspect.Parameter]:
    options: dict[str, tuple[Any, Any]] = {
        "results": (Results, results),
        "work": (Work, Path("runs") / title),
        "workers": (Workers, 1),
        "slurm": (Slurm, None),
        "ray": (Ray, None),
    }
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]


def _run(jobs: Sequence[Job], sweep: Sweep, how: Launch) -> None:
    """Run the jobs and print the tables of the folder."""
    console = Console()
    screen = Screen(console)
    try:
        command = [sys.executable, "-m", "cliffordstf", *sys.argv[1:]]  # tasks of SLURM know no environment of ours
        placed = [PlacedJob(job) for job in jobs]
        outcome = launch(sweep, placed, how, lambda text: console.print(text, highlight=False), screen, command)
    finally:
        screen.finish()
    if how.slurm is not None:
        return
    for item in all_tables(read_results(sweep.results)):
        console.print(item.rich())
    outcome.check(len(jobs))
    if outcome.is_stopped:
        raise typer.Exit(STOPPED)
