"""Models that leave Python: a schedule in one file, and the library and header that run it."""

from pathlib import Path
from typing import cast

from torch import nn

from cliffordstf.engine.native import reference_of
from cliffordstf.engine.prediction import Wrapped
from cliffordstf.engine.schedule import make_schedule, to_bytes, why_not_exported
from cliffordstf.errors import ConfigError
from cliffordstf.host.files import write_bytes
from cliffordstf.kernels.native.build import FOLDER, BuildError
from cliffordstf.kernels.native.built import build_shared

HEADER, LIBRARY = "cliffordstf.h", "libcliffordstf.so"


def exported(potential: nn.Module, notes: dict[str, str] | None = None) -> bytes:
    """A potential as the bytes of a native model: tables, weights and schedule, not tied to a machine.

    Args:
        potential: Of the default profile, with conservative forces.
        notes: Entries for the header of the file, for people.

    Raises:
        ConfigError: The potential has no schedule.
    """
    wrapped = cast("Wrapped", potential)
    problem = why_not_exported(wrapped)
    if problem is not None:
        raise ConfigError(f"this model cannot be exported: {problem}; models of the default profile can.")
    return to_bytes(make_schedule(wrapped.model), reference_of(wrapped), notes)


def export_native(potential: nn.Module, path: Path, notes: dict[str, str] | None = None) -> None:
    """Write `exported` to a file."""
    write_bytes(path, exported(potential, notes))


def export_library(folder: Path) -> tuple[Path, Path]:
    """Put the header and the shared library, built for this machine, into a folder; returns their paths.

    Raises:
        ConfigError: There is no compiler, or it fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    header, library = folder / HEADER, folder / LIBRARY
    try:
        write_bytes(library, build_shared().read_bytes())
    except BuildError as error:
        raise ConfigError(f"the library cannot be built: {error}.") from None
    write_bytes(header, (FOLDER / HEADER).read_bytes())
    return header, library
