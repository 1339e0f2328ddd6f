"""`cliffordstf predict`: energies, forces and stress for every structure of a file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import write
from ase.stress import full_3x3_to_voigt_6_stress
from rich.console import Console
from rich.progress import Progress

from cliffordstf.data.structure import Structure, symbol
from cliffordstf.errors import UnknownElementError
from cliffordstf.files import write_atomically
from cliffordstf.integrations.ase import Calculator
from cliffordstf.integrations.files import read_structures, without_labels
from cliffordstf.model.potential import Potential


def predict(
    model: Annotated[str, typer.Argument(help="Model file or name of a shipped model.")],
    file: Annotated[Path, typer.Argument(help="Structures in any format that ASE reads.")],
    out: Annotated[Path, typer.Option(help="extxyz file to write.")] = Path("predicted.extxyz"),
    atoms_per_batch: Annotated[
        int, typer.Option(min=1, help="Structures evaluated at once have up to this many atoms.")
    ] = 512,
    dtype: Annotated[Literal["float64", "float32"], typer.Option(help="Precision of the model.")] = "float64",
    device: Annotated[str, typer.Option(help="For example cpu or cuda.")] = "cpu",
) -> None:
    """Write energies (eV), forces (eV/Å) and stress (eV/Å³) of all structures in FILE, replacing labels."""
    potential = Calculator(model, dtype=dtype, device=device).potentials[0]
    frames = list(read_structures(file))
    # Checked under their numbers in the file, before anything is computed.
    structures = [Structure.from_ase(atoms, f"{file}, structure {index}") for index, atoms in enumerate(frames)]
    for structure in structures:
        _check_elements(potential, structure)

    def write_to(target: Path) -> None:
        with Progress(console=Console(stderr=True), transient=True) as progress, target.open("w") as stream:
            task = progress.add_task("predicting", total=len(frames))
            for part in batches(structures, atoms_per_batch):
                write(stream, predicted(potential, frames[part], structures[part]), format="extxyz")
                progress.advance(task, part.stop - part.start)

    write_atomically(out, write_to)
    console = Console(soft_wrap=True)
    console.print(f"{len(frames)} structures with {sum(map(len, frames))} atoms in all")
    console.print("energy (eV), forces (eV/Å) and, where there is a cell, stress (eV/Å³)")
    console.print(f"written to {out}")


def batches(structures: Sequence[Structure], most_atoms: int) -> Iterator[slice]:
    """Slices of neighbours in the file with at most `most_atoms` atoms each; a larger structure stands alone."""
    start, atoms = 0, 0
    for index, structure in enumerate(structures):
        if index > start and atoms + len(structure) > most_atoms:
            yield slice(start, index)
            start, atoms = index, 0
        atoms += len(structure)
    yield slice(start, len(structures))


def predicted(potential: Potential, frames: Sequence[Atoms], structures: Sequence[Structure]) -> list[Atoms]:
    """Copies of frames with the results of a potential instead of their own labels."""
    prediction = potential.predict(structures)
    assert prediction.forces is not None
    ends = np.cumsum([len(frame) for frame in frames])
    forces = np.split(prediction.forces.cpu().numpy(), ends[:-1])
    labelled = []
    for index, frame in enumerate(map(without_labels, frames)):
        results = {"energy": float(prediction.energy[index]), "forces": forces[index]}
        if prediction.stress is not None and bool(prediction.stress[index].isfinite().all()):
            results["stress"] = full_3x3_to_voigt_6_stress(prediction.stress[index].cpu().numpy())
        frame.calc = SinglePointCalculator(frame, **results)
        labelled.append(frame)
    return labelled


def _check_elements(potential: Potential, structure: Structure) -> None:
    unknown = sorted(set(structure.numbers.tolist()) - set(potential.elements))
    if unknown:
        raise UnknownElementError(
            f"{structure.name} holds {', '.join(map(symbol, unknown))}, which this potential was not built for; use or "
            "train a potential with these elements."
        )
