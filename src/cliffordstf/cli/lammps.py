"""`cliffordstf lammps`: the plugin, and input for it."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from cliffordstf.cli.options import AddModel
from cliffordstf.cli.reading import MODEL, STRUCTURE, read_one, with_reading_options
from cliffordstf.errors import ConfigError
from cliffordstf.integrations.lammps.build import build_plugin
from cliffordstf.integrations.lammps.script import SCRIPT, RunSettings, write_input
from cliffordstf.model.shipped import open_model

lammps_app = typer.Typer(no_args_is_help=True, help="Run models in LAMMPS: build the plugin, write input.")

Lammps = Annotated[
    Path | None,
    typer.Option(
        "--lammps", help="Source tree or installation of LAMMPS; by default the package lammps of this environment."
    ),
]
Mpi = Annotated[Path | None, typer.Option("--mpi", help="Folder of mpi.h, if it is not found.")]


@lammps_app.command("build")
def build(
    lammps: Lammps = None,
    mpi: Mpi = None,
    output: Annotated[
        Path | None, typer.Option(help="File or folder to write to; by default the plugin stays in the cache.")
    ] = None,
) -> None:
    """Build the plugin with `pair_style cliffordstf` for an installed LAMMPS or a source tree.

    Example: cliffordstf lammps build --lammps ~/lammps --output lib
    """
    plugin = build_plugin(output, lammps, mpi)
    Console(soft_wrap=True).print(f"plugin load {plugin.resolve()}", highlight=False)


@lammps_app.command("input")
@with_reading_options
def write(
    model: Annotated[str, typer.Argument(help=MODEL)],
    file: Annotated[
        list[str],
        typer.Argument(help=f"{STRUCTURE}; its velocities are kept.", metavar="FILE [data.KEY=VALUE...]"),
    ],
    reading: dict[str, Any] | None = None,
    output: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("lammps"),
    ensemble: Annotated[Literal["nve", "nvt", "npt"], typer.Option(help="What is held constant.")] = "nvt",
    temperature: Annotated[float, typer.Option(help="K.")] = 300.0,
    pressure: Annotated[float, typer.Option(help="GPa, for npt.")] = 0.0,
    timestep: Annotated[float, typer.Option(help="fs.")] = 0.5,
    steps: Annotated[int, typer.Option(min=0, help="How many.")] = 1000,
    dtype: Annotated[Literal["float64", "float32"], typer.Option(help="Precision of the model.")] = "float32",
    seed: Annotated[int, typer.Option(min=1, help="Of velocities and thermostat.")] = 1,
    index: Annotated[int, typer.Option(help="Which structure of FILE; -1 is the last.")] = -1,
    add_model: AddModel = None,
    lammps: Lammps = None,
    mpi: Mpi = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files of an earlier call.")] = False,
) -> None:
    """Write a data file, the exported model and a commented script that runs them, and build the plugin.

    Example: cliffordstf lammps input runs/water water.extxyz --ensemble npt
    """
    if (output / SCRIPT).exists() and not overwrite:
        raise ConfigError(f"{output / SCRIPT} exists; replace it (--overwrite) or give another folder (--output).")
    atoms = read_one(file, reading or {}, index)
    potentials = [open_model(name)[0] for name in [model, *(add_model or [])]]
    settings = RunSettings(ensemble, temperature, pressure, timestep, steps, dtype, seed)
    plugin = build_plugin(None, lammps, mpi).resolve()
    write_input(output, potentials, atoms, settings, plugin)
    console = Console(soft_wrap=True)
    console.print(f"written to {output}; run it there:", highlight=False)
    console.print(f"  mpirun -n 4 lmp -in {SCRIPT}", highlight=False)
