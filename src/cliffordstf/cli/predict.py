"""`cliffordstf predict`: energies, forces and stress for every structure of some files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import write
from ase.stress import full_3x3_to_voigt_6_stress
from rich.console import Console
from rich.progress import Progress

from cliffordstf.cli.options import AddModel, Dispersion
from cliffordstf.cli.reading import FILES, MODEL, read, read_options, split_arguments, with_reading_options
from cliffordstf.data.ase_structures import without_labels
from cliffordstf.data.batch import make_batch
from cliffordstf.data.frame import Frame
from cliffordstf.data.structure import Structure, symbol
from cliffordstf.engine.prediction import Prediction, check_finite
from cliffordstf.errors import ConfigError, UnknownElementError
from cliffordstf.host.files import write_atomically
from cliffordstf.integrations.ase import DTYPES, inference_device
from cliffordstf.integrations.dispersion import D3
from cliffordstf.model.ensemble import Ensemble
from cliffordstf.model.potential import Potential
from cliffordstf.model.shipped import open_ensemble


@with_reading_options
def predict(
    model: Annotated[str, typer.Argument(help=MODEL)],
    files: Annotated[list[str], typer.Argument(help=FILES, metavar="FILES... [data.KEY=VALUE...]")],
    reading: dict[str, Any] | None = None,
    out: Annotated[Path, typer.Option(help="extxyz file to write.")] = Path("predicted.extxyz"),
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
) -> None:
    """Write energies (eV), forces (eV/Å) and stress (eV/Å³) of all structures, replacing labels without --prefix.

    An ensemble (--add-model) writes mean values, and their spread as energy_std and forces_std. With --extrapolation
    each atom has its distance from the training set: above 1 it is like none of it, and the numbers mean little.
    """
    console = Console(soft_wrap=True)
    names, overrides = split_arguments(files)
    if not names:
        raise ConfigError("give at least one file with structures.")
    potential, _ = open_ensemble([model, *(add_model or [])])
    potential = potential.to(device=inference_device(device), dtype=DTYPES[dtype]).eval().requires_grad_(False)
    dispersion = None if d3 is None else D3(d3)
    frames = read(names, read_options(reading or {}, overrides), None, keep_atoms=True).frames
    for frame in frames:  # before anything is computed
        _check_elements(potential, frame.structure)

    def write_to(target: Path) -> None:
        with Progress(console=Console(stderr=True), transient=True) as progress, target.open("w") as stream:
            task = progress.add_task("predicting", total=len(frames))
            for part in batches([frame.structure for frame in frames], atoms_per_batch):
                write(stream, predicted(potential, frames[part], prefix, dispersion, extrapolation), format="extxyz")
                progress.advance(task, part.stop - part.start)

    write_atomically(out, write_to)
    console.print(f"{len(frames)} structures with {sum(len(frame.structure) for frame in frames)} atoms in all")
    console.print(
        f"{prefix or ''}energy (eV), {prefix or ''}forces (eV/Å) and, where there is a cell, {prefix or ''}stress "
        "(eV/Å³)"
    )
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


def predicted(
    potential: Potential | Ensemble,
    frames: Sequence[Frame],
    prefix: str | None = None,
    dispersion: D3 | None = None,
    extrapolation: bool = False,
) -> list[Atoms]:
    """Structures with the results of a potential.

    Args:
        potential: One, or several as an ensemble.
        frames: With `atoms`.
        prefix: Of the names of results, which then stand beside everything that was there; None replaces labels.
        dispersion: Is added.
        extrapolation: Add the distance of every atom from the training set.

    Raises:
        ConfigError: That is not known of the model.
    """
    batch = make_batch([frame.structure for frame in frames], potential.cutoff)
    batch = batch.to(potential.species_of_number.device)
    prediction = potential(batch, stress=bool((batch.volumes() > 0).any()))
    distances = potential.extrapolation(batch) if extrapolation else None
    if extrapolation and distances is None:
        raise ConfigError(
            "the model file has no statistics of its training set, so --extrapolation has nothing to go by; train it "
            "with this version."
        )
    ends = np.cumsum([len(frame.structure) for frame in frames])
    labelled = []
    for index, frame in enumerate(frames):
        assert frame.atoms is not None
        atoms = slice(int(ends[index]) - len(frame.structure), int(ends[index]))
        results = _results(prediction, index, atoms)
        check_finite(results["energy"], results["forces"], frame.structure.name)
        if distances is not None:
            results["extrapolation"] = distances[atoms].numpy()
        if dispersion is not None:
            _add(results, dispersion, frame.structure)
        labelled.append(_replaced(frame.atoms, results) if prefix is None else _beside(frame.atoms, results, prefix))
    return labelled


def _results(prediction: Prediction, index: int, atoms: slice) -> dict[str, Any]:
    assert prediction.forces is not None
    results: dict[str, Any] = {
        "energy": float(prediction.energy[index]),
        "forces": prediction.forces[atoms].cpu().numpy(),
    }
    if prediction.stress is not None and bool(prediction.stress[index].isfinite().all()):
        results["stress"] = full_3x3_to_voigt_6_stress(prediction.stress[index].cpu().numpy())
    if prediction.energy_std is not None and prediction.forces_std is not None:
        results["energy_std"] = float(prediction.energy_std[index])
        results["forces_std"] = prediction.forces_std[atoms].cpu().numpy()
    return results


def _add(results: dict[str, Any], dispersion: D3, structure: Structure) -> None:
    found = dispersion.evaluate(structure)
    results["energy"] += found.energy
    results["forces"] = results["forces"] + found.forces
    if "stress" in results and found.stress is not None:
        results["stress"] = results["stress"] + full_3x3_to_voigt_6_stress(found.stress)


def _replaced(atoms: Atoms, results: dict[str, Any]) -> Atoms:
    clean = without_labels(atoms)
    spread = {name: value for name, value in results.items() if name.endswith(("_std", "extrapolation"))}
    clean.calc = SinglePointCalculator(clean, **{name: value for name, value in results.items() if name not in spread})
    return _with(clean, spread, "")


def _beside(atoms: Atoms, results: dict[str, Any], prefix: str) -> Atoms:
    kept = atoms.copy()
    kept.calc = atoms.calc
    return _with(kept, results, prefix)


def _with(atoms: Atoms, values: dict[str, Any], prefix: str) -> Atoms:
    for name, value in values.items():
        (atoms.arrays if name.startswith(("forces", "extrapolation")) else atoms.info)[prefix + name] = value
    return atoms


def _check_elements(potential: Potential | Ensemble, structure: Structure) -> None:
    unknown = sorted(set(structure.numbers.tolist()) - set(potential.elements))
    if unknown:
        raise UnknownElementError(
            f"{structure.name} holds {', '.join(map(symbol, unknown))}, which this potential was not built for; use or "
            "train a potential with these elements."
        )
