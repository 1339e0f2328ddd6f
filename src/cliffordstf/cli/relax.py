"""`cliffordstf relax`: bring a structure to a minimum of the energy."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from ase import Atoms
from rich.console import Console
from rich.progress import Progress

from cliffordstf.cli.options import AddModel, Dispersion
from cliffordstf.cli.reading import MODEL, STRUCTURE, read_one, with_reading_options
from cliffordstf.host.files import write_atomically
from cliffordstf.integrations.ase import Calculator
from cliffordstf.simulate.output import append_frame, frozen
from cliffordstf.simulate.relax import RelaxResult, RelaxSettings
from cliffordstf.simulate.relax import relax as run_relax
from cliffordstf.simulate.stress import components


@with_reading_options
def relax(
    model: Annotated[str, typer.Argument(help=MODEL)],
    file: Annotated[list[str], typer.Argument(help=f"{STRUCTURE}.", metavar="FILE [data.KEY=VALUE...]")],
    reading: dict[str, Any] | None = None,
    add_model: AddModel = None,
    out: Annotated[Path, typer.Option(help="extxyz file for the relaxed structure.")] = Path("relaxed.extxyz"),
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
    index: Annotated[int, typer.Option(help="Which structure of FILE; -1 is the last.")] = -1,
    dtype: Annotated[Literal["float64", "float32"], typer.Option(help="Precision of the model.")] = "float64",
    device: Annotated[str, typer.Option(help="For example cpu or cuda.")] = "cpu",
    d3: Dispersion = None,
) -> None:
    """Relax a structure of FILE; exit 1 if FMAX is not reached within STEPS."""
    settings = RelaxSettings(optimizer, fmax, steps, cell, pressure, trajectory)
    atoms = read_one(file, reading or {}, index)
    calculator = Calculator([model, *(add_model or [])], dtype=dtype, device=device, dispersion=d3)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("relaxing", total=steps)

        def show(step: int, force: float) -> None:
            progress.update(task, completed=step, description=f"relaxing, largest force {force:.3g} eV/Å")

        result = run_relax(atoms, calculator, settings, show)
    write_atomically(out, lambda target: append_frame(target, frozen(atoms)))
    _print(result, settings, atoms, out)
    raise typer.Exit(0 if result.converged else 1)


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
