"""Small data sets that come with the package."""

from importlib.resources import files
from pathlib import Path

from cliffordstf.errors import DataError
from cliffordstf.options.text import did_you_mean

SUFFIX = ".extxyz.xz"


def names() -> list[str]:
    """Names of the data sets."""
    folder = Path(str(files("cliffordstf") / "datasets"))
    return sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))


def path(name: str) -> Path:
    """File of a data set, for `ase.io.read` or any reader of extended XYZ.

    Raises:
        DataError: There is no data set of this name.
    """
    known = names()
    if name not in known:
        raise DataError(f"there is no data set '{name}'{did_you_mean(name, known)}; there are: {', '.join(known)}.")
    return Path(str(files("cliffordstf") / "datasets" / f"{name}{SUFFIX}"))
