"""What a path is: one file, a folder or a pattern, and the format of each file, judged by its content."""

import glob
from collections.abc import Callable
from pathlib import Path

from cliffordstf.data.readers import ase_db, aselmdb, deepmd, extxyz, hdf5, mlearn, npz, trajectory
from cliffordstf.data.readers.compression import first_bytes
from cliffordstf.data.readers.paths import natural_key
from cliffordstf.data.readers.record import Contents
from cliffordstf.errors import DataError
from cliffordstf.text import did_you_mean

Reader = Callable[[Path, int | None], Contents]

FORMATS = (
    "extended XYZ (also .gz, .bz2, .xz), ASE .traj and .db, ASE-LMDB, npz of revised MD17 or sGDML, HDF5, DeePMD npy "
    "folders, mlearn JSON"
)
SUFFIXES = {".xyz", ".extxyz", ".traj", ".db", ".aselmdb", ".lmdb", ".npz", ".h5", ".hdf5", ".json"}
COMPRESSED = {".gz", ".bz2", ".xz"}

_LMDB_MAGIC = b"\xde\xc0\xef\xbe"
_MAGIC: tuple[tuple[bytes, Reader], ...] = (
    (b"PK\x03\x04", npz.read),
    (b"\x89HDF\r\n\x1a\n", hdf5.read),
    (b"SQLite format 3\x00", ase_db.read),
    (b"- of Ulm", trajectory.read),
)


def expand(path: Path) -> list[Path]:
    """The files (or DeePMD folders) that a path stands for, in natural order.

    A folder stands for the files and DeePMD systems directly inside it, not for those of its sub-folders, which often
    hold another split.

    Raises:
        DataError: There is nothing of the kind.
    """
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
    found = [item for item in path.iterdir() if _is_unit(item) or (item.is_file() and _known_suffix(item))]
    if not found:
        raise DataError(f"{path} has no data files directly inside; name a file in one of these formats: {FORMATS}.")
    return sorted(found, key=lambda item: natural_key(item.name))


def _is_unit(path: Path) -> bool:
    return path.is_dir() and (deepmd.is_system(path) or (path / "data.mdb").is_file())


def _known_suffix(path: Path) -> bool:
    suffixes = [suffix.casefold() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in SUFFIXES


def find_reader(path: Path) -> Reader:
    """The reader of a file or DeePMD folder.

    Raises:
        DataError: The file is empty or its format is not known.
    """
    if path.is_dir():
        if deepmd.is_system(path):
            return deepmd.read
        if (path / "data.mdb").is_file():
            return aselmdb.read
        raise DataError(f"{path} is a folder without type.raw; name the data files inside it.")
    start = first_bytes(path, 512)
    if not start.strip():
        raise DataError(f"{path} is empty; check how it was written or copied.")
    if start[16:20] == _LMDB_MAGIC:
        return aselmdb.read
    reader = next((reader for magic, reader in _MAGIC if start.startswith(magic)), None) or _text_reader(start)
    if reader is None:
        raise DataError(f"{path} is {_guess(start)}; write it in one of these formats: {FORMATS}.")
    return reader


def _text_reader(start: bytes) -> Reader | None:
    words = start.split()
    if words[0].isdigit() and b"\n" in start and len(start.splitlines()[0].split()) == 1:
        return extxyz.read
    return mlearn.read if words[0][:1] in (b"[", b"{") else None


def _guess(start: bytes) -> str:
    if start.startswith(b"\x80"):
        return "a Python pickle, which could run code when opened, and is not read"
    if start[257:262] == b"ustar":
        return "a tar archive, which must be unpacked first"
    return "in no format that is known here"
