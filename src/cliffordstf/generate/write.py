"""Write frames as extxyz, compressed if the name ends in `.xz`."""

import lzma
from pathlib import Path

from ase import Atoms
from ase.io import write

from cliffordstf.errors import ConfigError
from cliffordstf.host.files import write_atomically

SUFFIXES = (".extxyz", ".xyz", ".extxyz.xz", ".xyz.xz")


def check_output(path: Path) -> None:
    """Refuse a file name that is not one of extxyz, before the work is done.

    Raises:
        ConfigError: The suffix is another one.
    """
    if not path.name.endswith(SUFFIXES):
        raise ConfigError(f"the output {path} must end in one of {', '.join(SUFFIXES)}.")


def write_frames(path: Path, frames: list[Atoms]) -> None:
    """Write all frames; the file appears under its name only when it is complete."""
    check_output(path)

    def write_to(target: Path) -> None:
        if path.suffix == ".xz":
            with lzma.open(target, "wt", encoding="utf-8", preset=9 | lzma.PRESET_EXTREME) as stream:
                write(stream, frames, format="extxyz")
        else:
            with target.open("w", encoding="utf-8") as stream:
                write(stream, frames, format="extxyz")

    write_atomically(path, write_to)
