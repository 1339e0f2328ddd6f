"""`cliffordstf data convert`: any data files as shards, which are read by number and may be larger than memory."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from cliffordstf.cli.data import data_app
from cliffordstf.cli.reading import (
    FILES,
    print_sources,
    print_warnings,
    read_options,
    split_arguments,
    with_reading_options,
)
from cliffordstf.cli.sharding import (
    SHARD_SIZE,
    Ray,
    ShardSize,
    Slurm,
    Spread,
    Table,
    Work,
    Workers,
    print_totals,
    run_plan,
)
from cliffordstf.errors import ConfigError
from cliffordstf.screening.conversion import ConvertTask
from cliffordstf.screening.plan import Plan


@data_app.command()
@with_reading_options
def convert(
    files: Annotated[list[str], typer.Argument(help=FILES, metavar="FILES... [data.KEY=VALUE...]")],
    out: Annotated[Path, typer.Option(help="Folder of shards NAME.shards, or extxyz file, to write.")],
    reading: dict[str, Any] | None = None,
    table: Table = None,
    shard_size: ShardSize = SHARD_SIZE,
    work: Work = None,
    workers: Workers = 1,
    slurm: Slurm = None,
    ray: Ray = None,
) -> None:
    """Write structures and labels in eV and Å, as shards that training reads by number or as one extxyz file.

    Files may be larger than memory; the same command continues where an earlier one ended.
    """
    console = Console(soft_wrap=True)
    names, overrides = split_arguments(files)
    if not names:
        raise ConfigError("give at least one file with structures.")
    spread = Spread(work, workers, slurm, ray)
    options = read_options(reading or {}, overrides)
    plan = Plan(ConvertTask(), tuple(names), options, shard_size, out, spread.folder(out), table)
    totals = run_plan(plan, spread, console, "converting")
    if totals is None:
        return
    print_sources(console.print, totals.sources)
    print_warnings(console, totals.warnings)
    print_totals(console, totals, [out, table])
    counts = ", ".join(f"{count:,} with {label}" for label, count in totals.labels.items())
    console.print(counts, highlight=False)
