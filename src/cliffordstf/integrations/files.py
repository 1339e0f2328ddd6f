"""Structure files in any format that ASE reads, with errors that say which file and why."""

from collections.abc import Iterator
from pathlib import Path

from ase import Atoms
from ase.io import iread

from cliffordstf.errors import DataError

LABELS = ("energy", "free_energy", "energies", "forces", "stress", "stresses", "virial", "dipole", "charges", "magmoms")
"""Keys of calculators that ASE refuses to write when `info` or `arrays` hold them as well."""


def read_structures(path: Path | str) -> Iterator[Atoms]:
    """All structures of a file, one after the other.

    Raises:
        DataError: There is no such file, it cannot be read, or it holds no structure.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}; give a structure file that ASE can read, such as .extxyz or .cif.")
    count = 0
    try:
        for atoms in iread(str(path), index=":"):
            count += 1
            yield atoms
    except Exception as error:
        # ASE's readers raise whatever their parsers do; none of it tells a user which file is meant.
        reason = " ".join(str(error).split()).rstrip(".") or "no reason given"
        raise DataError(
            f"cannot read structure {count} of {path} ({type(error).__name__}: {reason}); check the file."
        ) from error
    if count == 0:
        raise DataError(f"{path} holds no structure; check the file.")


def read_structure(path: Path | str, index: int = -1) -> Atoms:
    """One structure of a file, the last by default.

    Raises:
        DataError: The file cannot be read or has no structure with this index.
    """
    structures = list(read_structures(path))
    try:
        return structures[index]
    except IndexError:
        raise DataError(f"{path} holds {len(structures)} structures, so there is none with index {index}.") from None


def without_labels(atoms: Atoms) -> Atoms:
    """A copy without calculator and without labels of an earlier calculation."""
    clean = atoms.copy()
    for key in LABELS:
        clean.info.pop(key, None)
        clean.arrays.pop(key, None)
    return clean
