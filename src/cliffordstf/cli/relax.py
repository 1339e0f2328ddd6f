"""`cliffordstf relax`: bring a structure to a minimum of the energy."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from ase import Atoms
from rich.console import Console
from rich.progress import Progress

from cliffordstf.files import write_atomically
from cliffordstf.integrations.ase import Calculator
from cliffordstf.integrations.files import read_structure
from cliffordstf.simulate.output import append_frame, frozen
from cliffordstf.simulate.relax import RelaxResult, RelaxSettings
from cliffordstf.simulate.relax import relax as run_relax


def relax(
    model: Annotated[str, typer.Argument(help="Model file or name of a shipped model.")],
    file: Annotated[Path, typer.Argument(help="Structure in any format that ASE reads.")],
    out: Annotated[Path, typer.Option(help="extxyz file for the relaxed structure.")] = Path("relaxed.extxyz"),
    trajectory: Annotated[Path | None, typer.Option(help=".traj or .extxyz file for every step.")] = None,
    optimizer: Annotated[Literal["fire", "lbfgs", "bfgs"], typer.Option(help="How to go downhill.")] = "lbfgs",
    fmax: Annotated[float, typer.Option(help="Largest force at the end, eV/Å.")] = 0.01,
    steps: Annotated[int, typer.Option(help="Most steps to take.")] = 500,
    cell: Annotated[bool, typer.Option("--cell", help="Relax the cell as well.")] = False,
    pressure: Annotated[float, typer.Option(help="Pressure on the cell, GPa.")] = 0.0,
    index: Annotated[int, typer.Option(help="Which structure of FILE; -1 is the last.")] = -1,
    dtype: Annotated[Literal["float64", "float32"], typer.Option(help="Precision of the model.")] = "float64",
    device: Annotated[str, typer.Option(help="For example cpu or cuda.")] = "cpu",
) -> None:
    """Relax a structure of FILE; exit 1 if FMAX is not reached within STEPS."""
    settings = RelaxSettings(optimizer, fmax, steps, cell, pressure, trajectory)
    atoms = read_structure(file, index)
    calculator = Calculator(model, dtype=dtype, device=device)
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
    console.print(f"largest force   {result.max_force:.5f} eV/Å (wanted: {settings.fmax:g} eV/Å)")
    console.print(f"largest move    {result.max_displacement:.3f} Å")
    if settings.cell:
        console.print(f"volume          {atoms.get_volume():.3f} Å³")
    console.print(f"written to {out}")
