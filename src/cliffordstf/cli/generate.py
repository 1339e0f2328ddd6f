"""`cliffordstf generate`: training data from GFN2-xTB."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress

from cliffordstf.errors import ConfigError
from cliffordstf.generate.sampling import generate_frames
from cliffordstf.generate.settings import GenerateSettings
from cliffordstf.generate.sources import start_structures
from cliffordstf.generate.write import check_output, write_frames


def generate(
    structure: Annotated[str, typer.Argument(help="Structure file, or a molecule of ASE's G2 set such as CH3CH2OH.")],
    temperatures: Annotated[str, typer.Option(help="K, separated by commas; frames are shared out evenly.")] = "300",
    frames: Annotated[int, typer.Option(help="Frames in all.")] = 200,
    out: Annotated[Path, typer.Option(help="extxyz file to write; .xz compresses it.")] = Path("data.extxyz"),
    rattle: Annotated[
        float | None, typer.Option(help="Random displacements of this many Å instead of molecular dynamics.")
    ] = None,
    timestep: Annotated[float, typer.Option(help="fs.")] = 0.5,
    interval: Annotated[float, typer.Option(help="fs between frames.")] = 10.0,
    equilibration: Annotated[float, typer.Option(help="fs before the first frame.")] = 500.0,
    friction: Annotated[float, typer.Option(help="Coupling to the thermostat, 1/fs.")] = 0.01,
    tolerance: Annotated[float, typer.Option(help="Å; frames whose distances differ by less are duplicates.")] = 0.01,
    isolated_atoms: Annotated[
        bool, typer.Option("--isolated-atoms", help="Add an isolated atom of every element.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Decides every random number.")] = 0,
) -> None:
    """Sample structures with GFN2-xTB and write them with energies (eV) and forces (eV/Å)."""
    settings = GenerateSettings(
        temperatures=parse_temperatures(temperatures),
        frames=frames,
        rattle=rattle,
        timestep=timestep,
        interval=interval,
        equilibration=equilibration,
        friction=friction,
        tolerance=tolerance,
        isolated_atoms=isolated_atoms,
        seed=seed,
    )
    check_output(out)
    starts = start_structures(structure)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("sampling", total=frames)
        made = generate_frames(starts, settings, lambda count: progress.update(task, completed=count))
    write_frames(out, made)
    console = Console(soft_wrap=True)
    samples = [frame for frame in made if frame.info.get("config_type") != "IsolatedAtom"]
    energies = np.array([frame.get_potential_energy() / len(frame) for frame in samples])
    forces = np.concatenate([np.linalg.norm(frame.get_forces(), axis=1) for frame in samples])
    console.print(
        f"{len(samples)} frames" + (f" and {len(made) - len(samples)} isolated atoms" if isolated_atoms else "")
    )
    console.print(f"energy          {energies.mean():.4f} ± {energies.std():.4f} eV/atom")
    console.print(f"force           {forces.mean():.3f} eV/Å on average, {forces.max():.2f} eV/Å at most")
    console.print(f"written to {out}")


def parse_temperatures(text: str) -> tuple[float, ...]:
    """`300,500` -> (300.0, 500.0).

    Raises:
        ConfigError: It is not a list of numbers.
    """
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"temperatures '{text}' must be numbers in K separated by commas, such as 300,500.") from None
