"""Frames that stay in their files and are read by number: data sets larger than memory."""

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import overload

import numpy as np

from cliffordstf.data.frame import Frame
from cliffordstf.data.load import as_asked
from cliffordstf.data.options import ReadOptions
from cliffordstf.data.readers import one_sentence
from cliffordstf.data.readers.detect import expand, find_reader
from cliffordstf.data.readers.extxyz import Part
from cliffordstf.data.readers.paths import distinct_names
from cliffordstf.data.readers.record import Source
from cliffordstf.data.shards import reading
from cliffordstf.data.shards.layout import LABELS, is_shards, read_index
from cliffordstf.data.shards.pieces import ACCESS, Piece, read_piece
from cliffordstf.data.structure import IntArray
from cliffordstf.errors import ConfigError, DataError

WINDOW = 500
"""Structures that are read at once where a file must be gone through."""
NO_ID = -1


@dataclass(frozen=True)
class Overview:
    """What is known of every structure without keeping it.

    Attributes:
        atoms: Of each structure, (structures,).
        ids: Whole number by which lists name it, -1 for none, (structures,).
        elements: Atomic numbers that occur.
        labels: Structures with energy, forces and stress.
    """

    atoms: IntArray
    ids: IntArray
    elements: frozenset[int]
    labels: dict[str, int]


class StoredFrames(Sequence[Frame]):
    """Frames of files that are read when they are asked for; what is kept is a few numbers a structure.

    Args:
        pieces: The files, whole.
        overviews: Of each file.
        options: How to read them.
        sources: What each file turned out to be.
        chosen: Numbers of the structures that belong to this set; all by default.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        overviews: Sequence[Overview],
        options: ReadOptions,
        sources: Sequence[Source],
        chosen: IntArray | None = None,
    ) -> None:
        self.pieces, self.options, self.sources = list(pieces), options, list(sources)
        self._overviews = list(overviews)
        self._ends = list(accumulate(len(overview.atoms) for overview in overviews))
        self._chosen = np.arange(self._ends[-1]) if chosen is None else chosen
        self.atoms: IntArray = np.concatenate([overview.atoms for overview in overviews])[self._chosen]
        """Of each structure, (structures,)."""
        self.elements = sorted(set().union(*(overview.elements for overview in overviews)))
        """Atomic numbers that occur in the files."""

    def __len__(self) -> int:
        return len(self._chosen)

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> list[Frame]: ...
    def __getitem__(self, index: int | slice) -> Frame | list[Frame]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        number = int(self._chosen[index])
        file = bisect_right(self._ends, number)
        first = number - (self._ends[file - 1] if file else 0)
        (frame,), _ = read_piece(replace(self.pieces[file], part=Part(first, 1, 0, 0)), self.options)
        options = self.options
        if options.free_atoms_only and frame.fixed is None:  # all of its atoms count as free
            options = options.model_copy(update={"free_atoms_only": False})
        return as_asked([frame], options, frame.structure.name)[0][0]

    def __iter__(self) -> Iterator[Frame]:
        return (self[index] for index in range(len(self)))

    @property
    def labels(self) -> dict[str, int]:
        """How many structures carry each label; of a part of the files, at most so many."""
        counts = {label: sum(overview.labels[label] for overview in self._overviews) for label in LABELS}
        return {label: min(count, len(self)) for label, count in counts.items()}

    def subset(self, indices: Sequence[int] | IntArray) -> "StoredFrames":
        """Some of the structures, in this order, still on disk."""
        chosen = self._chosen[np.asarray(indices, dtype=np.int64)]
        return StoredFrames(self.pieces, self._overviews, self.options, self.sources, chosen)

    def systems(self) -> list[Hashable] | None:
        """What each structure is a state of, see `cliffordstf.data.splits.systems_of`."""
        ids = np.concatenate([overview.ids for overview in self._overviews])[self._chosen]
        known = ids[ids != NO_ID]
        if not len(known) or len(np.unique(known)) in (1, len(known)):
            return None
        return [("frame", index) if number == NO_ID else number for index, number in enumerate(ids.tolist())]


def open_stored(paths: Sequence[str | Path], options: ReadOptions) -> StoredFrames:
    """Frames of files that are read by number.

    Our shards have an index. Files of other formats are gone through once, without keeping what is read.

    Args:
        paths: Shards of ours, LMDB or HDF5 files, ASE databases or trajectories; folders and patterns of these.
        options: How to read them.

    Raises:
        ConfigError: An option needs all structures at once.
        DataError: A file is of another format, or holds nothing.
    """
    unfit = [name for name in ("relaxations", "exclude") if getattr(options, name)]
    if unfit:
        raise ConfigError(f"data.{unfit[0]} needs all structures in memory; leave it out, or set data.in_memory=true.")
    files = [file for path in paths for file in expand(Path(path).expanduser())]
    label = options.config_type == "file" or len(files) > 1
    pieces = [Piece(file, name, None, label) for file, name in zip(files, distinct_names(files), strict=True)]
    sources = [_first_source(piece, options) for piece in pieces]
    overviews = [_overview(piece, options) for piece in pieces]
    total = sum(len(overview.atoms) for overview in overviews)
    chosen = None if options.limit is None else np.arange(min(total, options.limit))
    return StoredFrames(pieces, overviews, options, sources, chosen)


def _first_source(piece: Piece, options: ReadOptions) -> Source:
    if find_reader(piece.path) not in ACCESS:
        raise DataError(
            f"{piece.path} cannot be read by number; convert it once with 'cliffordstf data convert {piece.path.name} "
            "--out NAME.shards', or set data.in_memory=true."
        )
    first = min(WINDOW, _count(piece, options))
    return read_piece(replace(piece, part=Part(0, first, 0, 0)), options)[1]


def _count(piece: Piece, options: ReadOptions) -> int:
    with one_sentence(piece.path):
        return ACCESS[find_reader(piece.path)].count(piece.path, options.limits.budget())


def _overview(piece: Piece, options: ReadOptions) -> Overview:
    if is_shards(piece.path):
        shards = read_index(piece.path)
        labels = {label: sum(shard.labels[label] for shard in shards) for label in LABELS}
        elements = frozenset(number for shard in shards for number in shard.elements)
        return Overview(reading.sizes(piece.path), reading.ids(piece.path), elements, labels)
    atoms: list[int] = []
    ids: list[int] = []
    elements_found: set[int] = set()
    labels = dict.fromkeys(LABELS, 0)
    total = _count(piece, options)
    for first in range(0, total, WINDOW):
        frames, _ = read_piece(replace(piece, part=Part(first, min(WINDOW, total - first), 0, 0)), options)
        atoms += [len(frame.structure) for frame in frames]
        ids += [NO_ID if frame.id is None else frame.id for frame in frames]
        elements_found.update(*(np.unique(frame.structure.numbers).tolist() for frame in frames))
        for label in LABELS:
            labels[label] += sum(getattr(frame, f"has_{label}") for frame in frames)
    return Overview(np.array(atoms), np.array(ids), frozenset(elements_found), labels)


Frames = Sequence[Frame]
LARGE = 50_000
"""Structures from which on our shards stay on disk unless something else is asked for."""


def stays_on_disk(paths: Sequence[str | Path], in_memory: bool | None) -> bool:
    """Whether training data are read by number; None decides for shards of ours by their size."""
    if in_memory is not None:
        return not in_memory
    found = [Path(path).expanduser() for path in paths]
    return all(map(is_shards, found)) and sum(map(reading.count, found)) >= LARGE


def sizes_of(frames: Frames) -> IntArray:
    """Atoms of each structure, (structures,), without reading those on disk."""
    if isinstance(frames, StoredFrames):
        return frames.atoms
    return np.array([len(frame.structure) for frame in frames], dtype=np.int64)


def elements_of(frames: Frames) -> set[int]:
    """Atomic numbers that occur."""
    if isinstance(frames, StoredFrames):
        return set(frames.elements)
    return {int(number) for frame in frames for number in frame.structure.numbers}


def label_counts(frames: Frames) -> dict[str, int]:
    """How many structures carry each label."""
    if isinstance(frames, StoredFrames):
        return frames.labels
    return {label: sum(getattr(frame, f"has_{label}") for frame in frames) for label in LABELS}


def has_label(frames: Frames, label: str) -> bool:
    """Whether any structure carries a label: energy, forces or stress."""
    if isinstance(frames, StoredFrames):
        return frames.labels[label] > 0
    return any(getattr(frame, f"has_{label}") for frame in frames)


def picked(frames: Frames, indices: Sequence[int] | IntArray) -> Frames:
    """Some of the structures; those on disk stay there."""
    return frames.subset(indices) if isinstance(frames, StoredFrames) else [frames[int(i)] for i in indices]


SAMPLE = 2000
"""Structures of a set on disk that checks and fits look at."""


def representative(frames: Frames) -> list[Frame]:
    """Structures for what must be seen in memory: all, or of a set on disk some that are evenly spread."""
    if not isinstance(frames, StoredFrames):
        return list(frames)
    return [frames[int(index)] for index in np.linspace(0, len(frames) - 1, min(SAMPLE, len(frames))).round()]
