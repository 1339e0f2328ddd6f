"""`cliffordstf export`: a model for programs without Python."""

from pathlib import Path
from typing import Annotated, Literal

import torch
import typer
from ase import Atoms
from rich.console import Console

from cliffordstf.cli.reading import MODEL
from cliffordstf.data.batch import Batch
from cliffordstf.engine.export import export_library, export_native
from cliffordstf.engine.standalone import compile_package
from cliffordstf.engine.traced import export as export_traced
from cliffordstf.host.files import write_atomically
from cliffordstf.model.potential import Potential
from cliffordstf.model.shipped import open_model


def export(
    model: Annotated[str, typer.Argument(help=MODEL)],
    file: Annotated[Path, typer.Argument(help="File to write.")],
    to: Annotated[
        Literal["native", "torch", "aoti"],
        typer.Option(
            help="native: for the C interface and LAMMPS; torch: for torch.export.load(), with our operators inside; "
            "aoti: compiled by AOTInductor for this machine, for programs with libtorch."
        ),
    ] = "native",
    library: Annotated[
        Path | None,
        typer.Option(help="Folder for cliffordstf.h and libcliffordstf.so, built for this machine; with --to native."),
    ] = None,
    periodic: Annotated[
        bool, typer.Option(help="Whether the package is for periodic structures; with --to torch or aoti.")
    ] = True,
) -> None:
    """Write MODEL for programs without Python.

    Example: cliffordstf export runs/water model.cstf --library lib
    """
    potential, info = open_model(model)
    console = Console(soft_wrap=True)
    if to == "native":
        export_native(potential, file, {"level_of_theory": str(info.provenance.get("level_of_theory", "unknown"))})
        console.print(f"written to {file}, to be opened by cstf_open() of cliffordstf.h")
        if library is not None:
            header, shared = export_library(library)
            console.print(f"header  {header}\nlibrary {shared}")
            console.print(f"compile: cc program.c -I{library} -L{library} -lcliffordstf -Wl,-rpath,{library}")
        return
    if to == "aoti":
        write_atomically(file, lambda place: compile_package(potential, _example(potential, periodic), place, periodic))
        console.print(f"written to {file}, to be opened by AOTIModelPackageLoader (C++) or aoti_load_package (Python)")
        return
    program = export_traced(potential, _example(potential, periodic), stress=periodic)
    write_atomically(file, lambda place: torch.export.save(program, place))
    console.print(f"written to {file}, to be opened by torch.export.load()")


def _example(potential: Potential, periodic: bool) -> Batch:
    """Three atoms that are neighbours; only the kind of the batch matters to tracing."""
    numbers = [potential.elements[0], potential.elements[-1], potential.elements[0]]
    length = 0.9 * potential.cutoff
    positions = [[0.0, 0.0, 0.0], [0.0, 0.4 * length, 0.1], [0.45 * length, 0.0, 0.2]]
    return potential.batch(Atoms(numbers=numbers, positions=positions, cell=[length] * 3, pbc=periodic))
