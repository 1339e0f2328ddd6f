"""`cliffordstf relax`: bring a structure, or all of some files, to a minimum of the energy."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from ase import Atoms
from rich.console import Console
from rich.progress import Progress

from cliffordstf.cli.options import AddModel, Dispersion
from cliffordstf.cli.reading import (
    MODEL,
    STRUCTURE,
    read_one,
    read_options,
    split_arguments,
    with_reading_options,
)
from cliffordstf.cli.sharding import (
    PANEL,
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
from cliffordstf.host.files import write_atomically
from cliffordstf.integrations.ase import Calculator
from cliffordstf.screening.plan import Plan
from cliffordstf.screening.relaxation import RelaxTask
from cliffordstf.simulate.output import append_frame, frozen
from cliffordstf.simulate.relax import RelaxResult, RelaxSettings
from cliffordstf.simulate.relax import relax as run_relax
from cliffordstf.simulate.stress import components


@with_reading_options
def relax(
    model: Annotated[str, typer.Argument(help=MODEL)],
    file: Annotated[
        list[str], typer.Argument(help=f"{STRUCTURE}; several with --all.", metavar="FILE [data.KEY=VALUE...]")
    ],
    reading: dict[str, Any] | None = None,
    add_model: AddModel = None,
    out: Annotated[
        Path, typer.Option(help="extxyz file for the relaxed structure; with --all also a folder NAME.shards.")
    ] = Path("relaxed.extxyz"),
    trajectory: Annotated[Path | None, typer.Option(help=".traj or .extxyz file for every step.")] = None,
    optimizer: Annotated[
        Literal["auto", "fire", "lbfgs", "bfgs"],
        typer.Option(help="Optimizer; auto: bfgs up to 200 atoms, else fire with --cell and lbfgs without."),
    ] = "auto",
    fmax: Annotated[
        float, typer.Option(help="Largest force at the end, eV/Å; with --cell also eV per atom on the cell.")
    ] = 0.01,
    steps: Annotated[int, typer.Option(help="Most steps to take.")] = 500,
    cell: Annotated[bool, typer.Option("--cell", help="Relax the cell as well.")] = False,
    pressure: Annotated[float, typer.Option(help="Pressure on the cell, GPa.")] = 0.0,
    index: Annotated[int | None, typer.Option(help="Which structure of FILE; the last by default.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Relax every structure of one or several files.", rich_help_panel=PANEL)
    ] = False,
    dtype: Annotated[Literal["float64", "float32"], typer.Option(help="Precision of the model.")] = "float64",
    device: Annotated[str, typer.Option(help="For example cpu or cuda.")] = "cpu",
    d3: Dispersion = None,
    table: Table = None,
    shard_size: ShardSize = 100,
    work: Work = None,
    workers: Workers = 1,
    slurm: Slurm = None,
    ray: Ray = None,
) -> None:
    """Relax a structure of FILE; exit 1 if FMAX is not reached within STEPS.

    With --all every structure of any number of files, which may be larger than memory; the same command continues
    where an earlier one ended. The CSV table names structures that did not converge.
    """
    settings = RelaxSettings(optimizer, fmax, steps, cell, pressure, trajectory)
    spread = Spread(work, workers, slurm, ray)
    if every:
        if trajectory is not None or index is not None:
            raise ConfigError(
                "--all relaxes every structure and keeps the last step; leave out --trajectory and --index."
            )
        names, overrides = split_arguments(file)
        relaxation = RelaxTask((model, *(add_model or [])), settings, d3, dtype, device)
        options = read_options(reading or {}, overrides)
        _relax_all(Plan(relaxation, tuple(names), options, shard_size, out, spread.folder(out), table), spread)
        return
    if table is not None or spread != Spread():
        raise ConfigError("--csv, --work, --workers, --slurm and --ray are for many structures; add --all.")
    atoms = read_one(file, reading or {}, -1 if index is None else index)
    calculator = Calculator([model, *(add_model or [])], dtype=dtype, device=device, dispersion=d3)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("relaxing", total=steps)

        def show(step: int, force: float) -> None:
            progress.update(task, completed=step, description=f"relaxing, largest force {force:.3g} eV/Å")

        result = run_relax(atoms, calculator, settings, show)
    write_atomically(out, lambda target: append_frame(target, frozen(atoms)))
    _print(result, settings, atoms, out)
    raise typer.Exit(0 if result.converged else 1)


def _relax_all(plan: Plan, spread: Spread) -> None:
    console = Console(soft_wrap=True)
    totals = run_plan(plan, spread, console, "relaxing")
    if totals is None:
        return
    print_totals(console, totals, [plan.out, plan.table])
    rest = totals.structures - totals.converged
    console.print(f"{totals.converged} converged" + (f", [bold red]{rest} not converged[/]" if rest else ""))


def _print(result: RelaxResult, settings: RelaxSettings, atoms: Atoms, out: Path) -> None:
    console = Console(soft_wrap=True)
    if result.converged:
        console.print(f"converged in {result.steps} steps ({result.seconds:.1f} s)")
    else:
        console.print(f"[bold red]not converged[/] after {result.steps} steps; go on from {out} or allow more steps")
    console.print(f"energy          {result.energy:.6f} eV")
    # One format for both: rounding can then not lift a force above a limit that it is below.
    console.print(f"largest force   {result.max_force:g} eV/Å (limit: {settings.fmax:g} eV/Å)")
    console.print(f"largest move    {result.max_displacement:.3f} Å")
    if result.cell_gradient is not None:
        console.print(f"cell gradient   {result.cell_gradient:g} eV/atom (limit: {settings.fmax:g} eV/atom)")
        console.print(f"volume          {atoms.get_volume():.3f} Å³")
    for line in _stress_lines(result):
        console.print(line)
    console.print(f"written to {out}")


def _stress_lines(result: RelaxResult) -> list[str]:
    """Residual stress and pressure, where there is a stress."""
    if result.residual_stress_gpa is None or result.pressure is None:
        return []
    target = ""
    if result.cell_gradient is not None:
        deviation = result.pressure - result.target_pressure
        target = f" (target: {result.target_pressure:g} GPa, deviation: {deviation:+.4f} GPa)"
    return [
        f"residual stress {components(result.residual_stress_gpa)}",
        f"pressure        {result.pressure:.4f} GPa{target}",
    ]
