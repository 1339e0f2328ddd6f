"""`cliffordstf md`: molecular dynamics."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cliffordstf.cli.options import AddModel, Dispersion
from cliffordstf.cli.reading import MODEL, STRUCTURE, read_one, with_reading_options
from cliffordstf.errors import ConfigError
from cliffordstf.integrations.ase import Calculator
from cliffordstf.simulate.guards import Guards
from cliffordstf.simulate.md import run_md
from cliffordstf.simulate.settings import MDResult, MDSettings


@with_reading_options
def md(
    model: Annotated[str, typer.Argument(help=MODEL)],
    file: Annotated[
        list[str],
        typer.Argument(help=f"{STRUCTURE}; its velocities are kept.", metavar="FILE [data.KEY=VALUE...]"),
    ],
    reading: dict[str, Any] | None = None,
    ensemble: Annotated[Literal["nve", "nvt", "npt"], typer.Option(help="What is held constant.")] = "nvt",
    temperature: Annotated[float, typer.Option(help="K.")] = 300.0,
    pressure: Annotated[float, typer.Option(help="GPa, for npt.")] = 0.0,
    timestep: Annotated[float, typer.Option(help="fs.")] = 0.5,
    steps: Annotated[int, typer.Option(help="Number of the last step, also of a resumed run.")] = 1000,
    friction: Annotated[float, typer.Option(help="Coupling to the thermostat, 1/fs.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Of velocities and thermostat.")] = 0,
    interval: Annotated[int, typer.Option(help="Steps between frames and rows of the log.")] = 10,
    trajectory: Annotated[Path, typer.Option(help=".traj or .extxyz file.")] = Path("md.traj"),
    log: Annotated[
        Path, typer.Option(help="CSV file: step, time, energies, temperature; for npt volume, density, pressure.")
    ] = Path("md.csv"),
    restart: Annotated[Path, typer.Option(help="File to go on from.")] = Path("md.restart.npz"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the restart file.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the files of an earlier run.")] = False,
    add_model: AddModel = None,
    committee: Annotated[list[str] | None, typer.Option(hidden=True, help="The former name of --add-model.")] = None,
    max_force: Annotated[float, typer.Option(help="Stop when a force passes this, eV/Å.")] = 100.0,
    max_force_std: Annotated[
        float | None, typer.Option(help="Stop when the standard deviation of the ensemble passes this, eV/Å.")
    ] = None,
    max_extrapolation: Annotated[
        float | None,
        typer.Option(help="Stop when an atom is this far from the training set; 1 is its edge."),
    ] = None,
    index: Annotated[int, typer.Option(help="Which structure of FILE; -1 is the last.")] = -1,
    dtype: Annotated[Literal["float64", "float32"], typer.Option(help="Precision of the model.")] = "float64",
    device: Annotated[str, typer.Option(help="For example cpu or cuda.")] = "cpu",
    skin: Annotated[float, typer.Option(help="Margin of the neighbour list, Å.")] = 0.5,
    d3: Dispersion = None,
) -> None:
    """Run molecular dynamics with a structure of FILE."""
    settings = MDSettings(
        ensemble=ensemble,
        temperature=temperature,
        pressure=pressure,
        timestep=timestep,
        steps=steps,
        friction=friction,
        seed=seed,
        interval=interval,
        trajectory=trajectory,
        log=log,
        restart=restart,
        resume=resume,
        guards=Guards(max_force=max_force, max_force_std=max_force_std, max_extrapolation=max_extrapolation),
    )
    if not (resume or overwrite):
        _refuse_to_overwrite(trajectory, log, restart)
    atoms = read_one(file, reading or {}, index)
    calculator = Calculator(
        [model, *(add_model or []), *(committee or [])], dtype=dtype, device=device, skin=skin, dispersion=d3
    )
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"{ensemble} at {temperature:g} K", total=steps)
        result = run_md(atoms, calculator, settings, lambda step: progress.update(task, completed=step))
    _print(result, settings, len(atoms))


def _refuse_to_overwrite(*paths: Path) -> None:
    for path in paths:
        if path.exists():
            raise ConfigError(
                f"{path} exists; go on with that run (--resume), replace it (--overwrite) or give other file names."
            )


def _print(result: MDResult, settings: MDSettings, atoms: int) -> None:
    console = Console(soft_wrap=True)
    picoseconds = result.steps * settings.timestep / 1000
    console.print(
        f"steps           {result.steps} ({picoseconds:g} ps) of {atoms} atoms, up to step {result.last_step}"
    )
    if result.steps:
        console.print(f"time            {result.seconds:.1f} s, {1000 * result.seconds / result.steps:.2f} ms a step")
        nanoseconds_per_day = picoseconds / 1000 * 86400 / result.seconds
        console.print(f"speed           {nanoseconds_per_day:.3g} ns a day")
    console.print(f"mean temperature {result.mean_temperature:.1f} K")
    if result.mean_volume is not None:
        console.print(f"mean volume     {result.mean_volume:.3f} Å³")
        console.print(f"mean density    {result.mean_density:.4f} g/cm³")
        console.print(f"mean pressure   {result.mean_pressure:.4f} GPa (target: {settings.pressure:g} GPa)")
    if settings.ensemble == "nve":
        console.print(f"energy drift    {result.drift:+.4f} meV/atom/ps")
    if result.neighbour_share is not None:
        console.print(f"neighbour list  {100 * result.neighbour_share:.1f} % of the time")
    if result.memory_growth is not None:
        console.print(f"memory          {result.memory_growth:+.1f} MB since step 1,000")
    console.print(f"written to {settings.trajectory}, {settings.log} and {settings.restart}")
