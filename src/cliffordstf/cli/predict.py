"""`cliffordstf predict`: energies, forces and stress for every structure of some files."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from cliffordstf.cli.options import AddModel, Dispersion
from cliffordstf.cli.reading import FILES, MODEL, read_options, split_arguments, with_reading_options
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
from cliffordstf.screening.plan import Plan
from cliffordstf.screening.prediction import PredictTask


@with_reading_options
def predict(
    model: Annotated[str, typer.Argument(help=MODEL)],
    files: Annotated[list[str], typer.Argument(help=FILES, metavar="FILES... [data.KEY=VALUE...]")],
    reading: dict[str, Any] | None = None,
    out: Annotated[
        Path, typer.Option(help="extxyz file to write, or a folder of shards if it ends with .shards.")
    ] = Path("predicted.extxyz"),
    table: Table = None,
    prefix: Annotated[
        str | None,
        typer.Option(help="Put this before the names of the results, such as ref_, and keep all that the files hold."),
    ] = None,
    add_model: AddModel = None,
    atoms_per_batch: Annotated[
        int, typer.Option(min=1, help="Structures evaluated at once have up to this many atoms.")
    ] = 512,
    d3: Dispersion = None,
    extrapolation: Annotated[
        bool,
        typer.Option("--extrapolation", help="Also write how far each atom is from the training set; 1 is its edge."),
    ] = False,
    dtype: Annotated[Literal["float64", "float32"], typer.Option(help="Precision of the model.")] = "float64",
    device: Annotated[str, typer.Option(help="For example cpu or cuda.")] = "cpu",
    shard_size: ShardSize = SHARD_SIZE,
    work: Work = None,
    workers: Workers = 1,
    slurm: Slurm = None,
    ray: Ray = None,
) -> None:
    """Write energies (eV), forces (eV/Å) and stress (eV/Å³) of all structures, replacing labels without --prefix.

    An ensemble (--add-model) writes mean values, and their spread as energy_std and forces_std. With --extrapolation
    each atom has its distance from the training set: above 1 it is like none of it, and the numbers mean little. Files
    may be larger than memory; the same command continues where an earlier one ended.
    """
    console = Console(soft_wrap=True)
    names, overrides = split_arguments(files)
    if not names:
        raise ConfigError("give at least one file with structures.")
    spread = Spread(work, workers, slurm, ray)
    task = PredictTask((model, *(add_model or [])), prefix, d3, atoms_per_batch, dtype, device, extrapolation)
    options = read_options(reading or {}, overrides)
    plan = Plan(task, tuple(names), options, shard_size, out, spread.folder(out), table)
    if prefix is not None and plan.writes_shards:
        raise ConfigError("shards hold one set of labels, so --prefix has no meaning there; leave it out.")
    if extrapolation and plan.writes_shards and table is None:
        raise ConfigError("shards hold labels alone; name a table for the distances of --extrapolation with --csv.")
    totals = run_plan(plan, spread, console, "predicting")
    if totals is None:
        return
    print_totals(console, totals, [out, table])
    console.print(
        f"{prefix or ''}energy (eV), {prefix or ''}forces (eV/Å) and, where there is a cell, {prefix or ''}stress "
        "(eV/Å³)"
    )
