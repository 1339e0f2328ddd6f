"""Parts of data files: any number of structures can be read a few at a time, by any number of processes.

Formats with an order on disk (extended XYZ, also compressed; LMDB, ASE's databases and trajectories, HDF5, our shards)
are cut anywhere. A file of another format is one piece.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cliffordstf.data.frame import Frame
from cliffordstf.data.load import Loaded, as_asked
from cliffordstf.data.options import ReadOptions
from cliffordstf.data.readers import (
    ase_db,
    aselmdb,
    convert,
    counted,
    extxyz,
    hdf5,
    lmdb_file,
    one_sentence,
    opencatalyst,
    trajectory,
)
from cliffordstf.data.readers.detect import Reader, expand, find_reader, read_shards
from cliffordstf.data.readers.paths import distinct_names
from cliffordstf.data.readers.record import Contents, Source
from cliffordstf.data.shards import reading as shards
from cliffordstf.data.units import AUTO
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.host.budget import Budget

Window = Callable[[Path, int | None, Budget, int], Contents]


@dataclass(frozen=True)
class Access:
    """How structures of a format are read by number.

    Attributes:
        count: Structures of a file.
        read: At most so many of them (None: all), from one of them on.
    """

    count: Callable[[Path, Budget], int]
    read: Window


ACCESS: dict[Reader, Access] = {
    aselmdb.read: Access(lmdb_file.count, aselmdb.read),
    opencatalyst.read_lmdb: Access(lmdb_file.count, opencatalyst.read_lmdb),
    ase_db.read: Access(ase_db.count, ase_db.read),
    trajectory.read: Access(trajectory.count, trajectory.read),
    hdf5.read: Access(hdf5.count, hdf5.read),
    read_shards: Access(shards.count, shards.read),
}
"""Reader of whole files -> the same by number. Extended XYZ is found by bytes instead."""


@dataclass(frozen=True)
class Piece:
    """Consecutive structures of one file.

    Attributes:
        path: The file.
        name: Of the file in names of structures.
        part: Which structures, and for extended XYZ where they are; None for the whole file.
        is_labelled: Structures without a label of their own are labelled by their file.
    """

    path: Path
    name: str
    part: extxyz.Part | None = None
    is_labelled: bool = False


def split(paths: Sequence[str | Path], size: int, options: ReadOptions) -> Iterator[list[Piece]]:
    """Divide files into shards; nothing but counts and places is kept of them.

    Args:
        paths: Files, folders, patterns.
        size: Structures of a shard; a file that cannot be cut may hold more.
        options: Of these only what concerns all files together.

    Raises:
        ConfigError: An option needs all structures at once.
        DataError: A file does not exist, is empty or of no known format.
    """
    if options.relaxations:
        raise ConfigError("data.relaxations needs all frames of a relaxation at once, which shards do not give.")
    files = [file for path in paths for file in expand(Path(path).expanduser())]
    is_labelled = options.config_type == "file" or (options.config_type == AUTO and len(files) > 1)
    shard: list[Piece] = []
    filled, left = 0, options.limit
    for file, name in zip(files, distinct_names(files), strict=True):
        for part in _parts(file, size, left, options.limits.budget()):
            count = 1 if part is None else part.count
            if shard and filled + count > size:
                yield shard
                shard, filled = [], 0
            shard.append(Piece(file, name, part, is_labelled))
            filled += count
            left = None if left is None else left - count
        if left is not None and left <= 0:
            break
    if shard:
        yield shard


def _parts(file: Path, size: int, limit: int | None, budget: Budget) -> Iterator[extxyz.Part | None]:
    """Parts of one file up to a limit; None for a file that is read as a whole."""
    with one_sentence(file):
        reader = find_reader(file)
        access = ACCESS.get(reader)
        if reader is not extxyz.read and access is None and limit is None:
            yield None
            return
        empty = True
        if reader is extxyz.read:
            found = extxyz.parts(file, size, limit, budget)
        else:
            total = _count(file, reader, access, limit, budget)
            found = (extxyz.Part(first, min(size, total - first), 0, 0) for first in range(0, total, size))
        for part in found:
            empty = False
            yield part
    if empty:
        raise DataError(f"{file} holds no structures; check how it was written.")


def _count(file: Path, reader: Reader, access: Access | None, limit: int | None, budget: Budget) -> int:
    """Structures of a file, at most as many as the limit."""
    total = len(reader(file, limit, budget).records) if access is None else access.count(file, budget)
    return total if limit is None else min(total, limit)


def read_pieces(pieces: Sequence[Piece], options: ReadOptions, keep_atoms: bool = False) -> Loaded:
    """Structures of a shard.

    Args:
        pieces: Of one or several files.
        options: Units, keys and the like.
        keep_atoms: Keep each structure as ASE has it, too.
    """
    frames: list[Frame] = []
    sources: list[Source] = []
    for piece in pieces:
        found, source = read_piece(piece, options, keep_atoms)
        frames += found
        sources.append(source)
    frames, warnings = as_asked(frames, options, str(pieces[0].path))
    return Loaded(frames, sources, list(dict.fromkeys([*(w for s in sources for w in s.warnings), *warnings])))


def read_piece(piece: Piece, options: ReadOptions, keep_atoms: bool = False) -> tuple[list[Frame], Source]:
    """Structures of a piece, and what its file turned out to be."""
    budget = options.limits.budget()
    contents = counted(piece.path, lambda: _contents(piece, budget), budget)
    if piece.part is not None and len(contents.records) != piece.part.count:
        raise DataError(
            f"{piece.path} holds {len(contents.records)} of the {piece.part.count} structures from number "
            f"{piece.part.first} on that were counted before; begin again if it has changed."
        )
    frames, source = convert(piece.path, contents, piece.name, options, keep_atoms)
    if piece.is_labelled and all(frame.config_type is None for frame in frames):
        label = Path(piece.name).name.split(".")[0]
        frames = [replace(frame, config_type=label) for frame in frames]
    return frames, source


def _contents(piece: Piece, budget: Budget) -> Contents:
    reader, part = find_reader(piece.path), piece.part
    if part is None:
        return reader(piece.path, None, budget)
    if reader is extxyz.read:
        return extxyz.read_part(piece.path, part, budget)
    access = ACCESS.get(reader)
    if access is None:
        return reader(piece.path, part.count, budget)
    return access.read(piece.path, part.count, budget, part.first)
