"""The `cliffordstf` command."""

import contextlib
import errno
import sys
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from cliffordstf import __version__
from cliffordstf.cli import convert as _convert  # noqa: F401 - its command registers itself with data_app
from cliffordstf.cli import fetch as _fetch  # noqa: F401 - and so does this
from cliffordstf.cli.benchmarks import bench_app
from cliffordstf.cli.data import data_app
from cliffordstf.cli.demo import demo
from cliffordstf.cli.evaluate import eval_command
from cliffordstf.cli.export import export
from cliffordstf.cli.generate import generate
from cliffordstf.cli.hints import TrainCommand
from cliffordstf.cli.ipi import ipi
from cliffordstf.cli.lammps import lammps_app
from cliffordstf.cli.md import md
from cliffordstf.cli.models import models
from cliffordstf.cli.predict import predict
from cliffordstf.cli.presets import presets
from cliffordstf.cli.properties import properties
from cliffordstf.cli.relax import relax
from cliffordstf.cli.train import train_command
from cliffordstf.cli.verify import verify
from cliffordstf.errors import CliffordSTFError
from cliffordstf.host.allocator import keep_freed_memory

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cliffordstf {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
) -> None:
    """Interatomic potentials from a Cl(3,0) multivector coupled to symmetric-traceless tensor tracks."""


app.command("train", cls=TrainCommand)(train_command)
app.command("eval")(eval_command)
app.command()(predict)
app.command()(relax)
app.command()(md)
app.command()(properties)
app.command()(ipi)
app.add_typer(data_app, name="data")
app.command()(generate)
app.command()(export)
app.add_typer(lammps_app, name="lammps")
app.command()(models)
app.command()(presets)
app.command()(demo)
app.command()(verify)
app.add_typer(bench_app, name="bench")


def run() -> None:
    """Entry point: errors that a user can act on are one line, without a traceback."""
    keep_freed_memory()
    try:
        app()
    except CliffordSTFError as error:
        _fail(str(error))
    except OSError as error:  # a disk that is full, a folder that may not be read: nothing that a traceback explains
        if error.errno not in _DISK:
            raise
        _fail(f"{error.filename or 'a file'}: {error.strerror}; check the folder and the disk.")
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):  # how PyTorch puts it
            raise
        _fail("the memory does not suffice; take smaller batches or fewer structures at a time.")


_DISK = {getattr(errno, name) for name in ("ENOSPC", "EROFS", "EACCES", "EPERM", "EIO", "EFBIG", "EDQUOT", "ENOTDIR")}


def _fail(reason: str) -> NoReturn:
    with contextlib.suppress(OSError):  # standard error may lie on the disk that is full
        Console(stderr=True).print(f"[bold red]error:[/] {escape(reason)}", highlight=False, soft_wrap=True)
    sys.exit(2)
