"""`cliffordstf ipi`: forces for the path integrals of i-PI."""

from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from cliffordstf.cli.options import AddModel, Dispersion
from cliffordstf.cli.reading import MODEL, STRUCTURE, read_one, with_reading_options
from cliffordstf.integrations.ase import Calculator
from cliffordstf.integrations.ipi import DEFAULT_PORT, serve_ipi


@with_reading_options
def ipi(
    model: Annotated[str, typer.Argument(help=MODEL)],
    file: Annotated[
        list[str],
        typer.Argument(
            help=f"{STRUCTURE}; atoms in i-PI's order, and periodicity.", metavar="FILE [data.KEY=VALUE...]"
        ),
    ],
    reading: dict[str, Any] | None = None,
    unix: Annotated[str | None, typer.Option(help="Name of the Unix socket, as 'address' in i-PI's input.")] = None,
    host: Annotated[str, typer.Option(help="Host of the server, without --unix.")] = "localhost",
    port: Annotated[int, typer.Option(help="Port of the server, without --unix.")] = DEFAULT_PORT,
    wait: Annotated[float, typer.Option(help="How long to wait for the server to start, s.")] = 60.0,
    add_model: AddModel = None,
    index: Annotated[int, typer.Option(help="Which structure of FILE; -1 is the last.")] = -1,
    dtype: Annotated[Literal["float64", "float32"], typer.Option(help="Precision of the model.")] = "float64",
    device: Annotated[str, typer.Option(help="For example cpu or cuda.")] = "cpu",
    d3: Dispersion = None,
) -> None:
    """Answer an i-PI server with energies, forces and virials of MODEL until it ends.

    Several of these commands share the beads. The server needs pip install 'cliffordstf[ipi]'.
    """
    atoms = read_one(file, reading or {}, index)
    calculator = Calculator([model, *(add_model or [])], dtype=dtype, device=device, dispersion=d3)
    evaluations = serve_ipi(atoms, calculator, unix, host, port, wait)
    Console(soft_wrap=True).print(f"evaluations {evaluations}; the server has ended")
