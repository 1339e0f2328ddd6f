"""Structures that are read as ASE objects: any file that is read for training, too, with velocities and constraints."""

from pathlib import Path

from ase import Atoms

from cliffordstf.data.load import load_frames
from cliffordstf.data.options import READ_AUTO, ReadOptions
from cliffordstf.errors import DataError

LABELS = ("energy", "free_energy", "energies", "forces", "stress", "stresses", "virial", "dipole", "charges", "magmoms")
"""Keys of calculators that ASE refuses to write when `info` or `arrays` hold them as well."""


def read_structures(path: Path | str, options: ReadOptions = READ_AUTO) -> list[Atoms]:
    """All structures of a file, with velocities and constraints where it has them.

    Args:
        path: A file, a folder or a pattern in any format that is read.
        options: Units and the like.

    Raises:
        DataError: There is no such file, it cannot be read, or it holds no structure.
    """
    frames = load_frames(str(path), options, keep_atoms=True).frames
    return [frame.atoms for frame in frames if frame.atoms is not None]


def read_structure(path: Path | str, index: int = -1, options: ReadOptions = READ_AUTO) -> Atoms:
    """One structure of a file, the last by default.

    Raises:
        DataError: The file cannot be read or has no structure with this index.
    """
    structures = read_structures(path, options)
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
