"""What a path is: one file, a folder or a pattern, and the format of each file, judged by its content."""

import glob
from collections.abc import Callable
from pathlib import Path

from cliffordstf.data.readers import (
    ase_db,
    ase_formats,
    aselmdb,
    deepmd,
    extxyz,
    hdf5,
    mlearn,
    molecule3d,
    npz,
    oc20_shards,
    opencatalyst,
    qm9,
    qm9pack,
    sdf,
    trajectory,
)
from cliffordstf.data.readers.compression import first_bytes
from cliffordstf.data.readers.lmdb_file import holds_pickles
from cliffordstf.data.readers.paths import natural_key
from cliffordstf.data.readers.record import Contents
from cliffordstf.data.shards import reading as shards
from cliffordstf.data.shards.layout import is_shards
from cliffordstf.errors import DataError
from cliffordstf.host.budget import Budget
from cliffordstf.options.text import did_you_mean

Reader = Callable[[Path, int | None, Budget], Contents]

FORMATS = (
    "extended XYZ (also .gz, .bz2, .xz), ASE .traj and .db, ASE-LMDB, npz of revised MD17 or sGDML, HDF5, DeePMD npy "
    "folders, folders of 'data convert', mlearn JSON, SDF, CIF, POSCAR, OUTCAR, vasprun.xml and other formats of ASE, "
    "and OC20, OC22, QM9 and Molecule3D as they are published"
)
SUFFIXES = {".xyz", ".extxyz", ".traj", ".db", ".aselmdb", ".lmdb", ".npz", ".h5", ".hdf5", ".json", ".sdf"}
SUFFIXES |= ase_formats.SUFFIXES
COMPRESSED = {".gz", ".bz2", ".xz"}

_LMDB_MAGIC = b"\xde\xc0\xef\xbe"
_MAGIC: tuple[tuple[bytes, Reader], ...] = (
    (b"PK\x03\x04", npz.read),
    (b"\x89HDF\r\n\x1a\n", hdf5.read),
    (b"SQLite format 3\x00", ase_db.read),
    (b"- of Ulm", trajectory.read),
    (b"\x80", opencatalyst.read_pickle),
)


def read_shards(path: Path, limit: int | None, budget: Budget) -> Contents:
    """Read a folder of our shards."""
    return shards.read(path, limit, budget)  # looked up late: that module imports this package


_FOLDERS: tuple[tuple[Callable[[Path], bool], Reader], ...] = (
    (is_shards, read_shards),
    (deepmd.is_system, deepmd.read),
    (molecule3d.is_folder, molecule3d.read),
    (qm9.is_folder, qm9.read_raw),
)


def expand(path: Path) -> list[Path]:
    """The files (or folders that are one data set) that a path stands for, in natural order.

    Any other folder stands for the files and such folders directly inside it, not for those of its sub-folders, which
    often hold another split.

    Raises:
        DataError: There is nothing of the kind.
    """
    if str(path) == qm9pack.ADDRESS:
        return [path]
    if any(letter in str(path) for letter in "*?[") and not path.exists():
        found = [Path(name) for name in glob.glob(str(path), recursive=True)]
        if not found:
            raise DataError(f"no file matches the pattern {path}; check it.")
        return sorted(found, key=lambda item: natural_key(str(item)))
    if not path.exists():
        siblings = [item.name for item in path.parent.iterdir()] if path.parent.is_dir() else []
        raise DataError(f"{path} does not exist{did_you_mean(path.name, siblings)}; check the path.")
    if path.is_file() or _is_unit(path):
        return [path]
    if not path.is_dir():
        raise DataError(f"{path} is a pipe or a device, not a file; write its content to a file first.")
    found = [item for item in path.iterdir() if _is_unit(item) or (item.is_file() and _known_suffix(item))]
    if not found:
        raise DataError(f"{path} has no data files directly inside; name a file in one of these formats: {FORMATS}.")
    return sorted(found, key=lambda item: natural_key(item.name))


def _is_unit(path: Path) -> bool:
    return path.is_dir() and ((path / "data.mdb").is_file() or any(fits(path) for fits, _ in _FOLDERS))


def _known_suffix(path: Path) -> bool:
    suffixes = [suffix.casefold() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in SUFFIXES


def find_reader(path: Path) -> Reader:
    """The reader of a file or of a folder that is one data set.

    Raises:
        DataError: The file is empty or its format is not known.
    """
    if str(path) == qm9pack.ADDRESS:
        return qm9pack.read
    if path.is_dir():
        if (path / "data.mdb").is_file():
            return _lmdb_reader(path)
        for fits, reader in _FOLDERS:
            if fits(path):
                return reader
        raise DataError(f"{path} is a folder without type.raw; name the data files inside it.")
    if ase_formats.is_named_for_vasp(path):
        return ase_formats.read
    start = first_bytes(path, 512)
    if not start.strip():
        raise DataError(f"{path} is empty; check how it was written or copied.")
    if start[16:20] == _LMDB_MAGIC:
        return _lmdb_reader(path)
    found = next((reader for magic, reader in _MAGIC if start.startswith(magic)), None) or _text_reader(path, start)
    if found is None and ase_formats.format_of(path) is not None:
        found = ase_formats.read
    if found is None:
        raise DataError(f"{path} is {_guess(start)}; write it in one of these formats: {FORMATS}.")
    return found


def _lmdb_reader(path: Path) -> Reader:
    return opencatalyst.read_lmdb if holds_pickles(path) else aselmdb.read


def _text_reader(path: Path, start: bytes) -> Reader | None:
    words = start.split()
    if sdf.is_sdf(start):
        return sdf.read
    if qm9.is_raw(start):
        return qm9.read_raw
    if words[0].isdigit() and b"\n" in start and len(start.splitlines()[0].split()) == 1:
        return oc20_shards.read if oc20_shards.side_file(path) else extxyz.read
    return mlearn.read if words[0][:1] in (b"[", b"{") else None


def _guess(start: bytes) -> str:
    if start[257:262] == b"ustar":
        return "a tar archive, which must be unpacked first"
    return "in no format that is known here"
