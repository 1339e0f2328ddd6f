"""`cliffordstf bench …`: what is measured past one process: screening, sets larger than memory, several processes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cliffordstf.bench.jobs.sweep import Job
from cliffordstf.bench.scale.large_set import LargeSetJob
from cliffordstf.bench.scale.ranks import RanksJob
from cliffordstf.bench.scale.screening_walk import ScreeningJob
from cliffordstf.cli.benchmarks.sweeps import study
from cliffordstf.cli.options import Overrides
from cliffordstf.cli.sharding import SHARD_SIZE
from cliffordstf.options.text import names_in
from cliffordstf.train.config import load_config

SCALE = Path("results/scale-measured")


@study(results_folder=SCALE)
def screening(
    model: Annotated[str, typer.Argument(help="Model file or name of a shipped model.")],
    data: Annotated[Path, typer.Argument(help="Structures that are repeated and rattled.")],
    structures: Annotated[int, typer.Option(min=1, help="How many are made.")] = 100_000,
    shard_size: Annotated[int, typer.Option(min=1, help="Structures of a shard.")] = SHARD_SIZE,
    only: Annotated[str | None, typer.Option(help="'one process' or 'Ray'; both by default.")] = None,
) -> Sequence[Job]:
    """Send many structures through predict, in one process and on Ray with a worker killed: speed, memory, output."""
    jobs = [
        ScreeningJob("one process", model, data, structures, shard_size),
        ScreeningJob("Ray", model, data, structures, shard_size),
    ]
    return [job for job in jobs if only in (None, job.where)]


@study(name="large-set", results_folder=SCALE)
def large_set(
    data: Annotated[Path, typer.Argument(help="Labelled structures that are repeated and rattled.")],
    structures: Annotated[int, typer.Option(min=1, help="How many are made.")] = 200_000,
    steps: Annotated[int, typer.Option(min=1, help="Updates.")] = 100,
    in_memory: Annotated[bool, typer.Option("--in-memory", help="Read the set into memory, for comparison.")] = False,
) -> Sequence[Job]:
    """Train for some steps on a set in shards that is read by number: memory beside the size of the files."""
    return [LargeSetJob(data, structures, steps, in_memory)]


@study(results_folder=SCALE)
def ranks(
    data: Annotated[Path, typer.Argument(help="Labelled structures to train on.")],
    overrides: Overrides = None,
    processes: Annotated[str, typer.Option(help="Numbers of processes, separated by commas.")] = "1,2",
    batch_size: Annotated[int, typer.Option(min=1, help="Structures of all processes together.")] = 32,
    steps: Annotated[int, typer.Option(min=1, help="Updates that are timed.")] = 40,
) -> Sequence[Job]:
    """Train in several processes under torchrun: step time, bytes moved, and what follows for 8 to 1,024 devices."""
    config = load_config(None, [f"data.train={data}", f"batch_size={batch_size}", "threads=1", *(overrides or [])])
    return [RanksJob(config, int(count), steps) for count in names_in(processes)]
