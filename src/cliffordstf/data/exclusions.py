"""Structures that are left out by their id, such as the molecules of QM9 that failed the consistency check."""

from collections.abc import Collection
from pathlib import Path

from cliffordstf.data.frame import Frame
from cliffordstf.errors import ConfigError, DataError

EXCLUDED_FROM_QM9 = 3054


def read_ids(path: Path | str) -> frozenset[int]:
    """Ids from a text file: the first word of every line that starts with a whole number; other lines are text.

    Raises:
        DataError: There is no such file, or no id in it.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise DataError(f"there is no file {path} with ids to leave out; check the path.")
    words = (line.split(maxsplit=1)[:1] for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    ids = frozenset(int(word) for first in words for word in first if word.isdecimal())
    if not ids:
        raise DataError(f"{path} has no line that starts with a whole number, so it names no ids; check the file.")
    return ids


def excluded_qm9_ids(path: Path | str) -> frozenset[int]:
    """The gdb indices (counted from 1) of the official list `uncharacterized.txt`.

    Raises:
        DataError: It does not hold 3054 ids.
    """
    ids = read_ids(path)
    if len(ids) != EXCLUDED_FROM_QM9:
        raise DataError(f"{path} names {len(ids)} ids, but the list of QM9 has {EXCLUDED_FROM_QM9}; download it again.")
    return ids


def leave_out(frames: list[Frame], ids: Collection[int], file: Path | str) -> tuple[list[Frame], list[str]]:
    """Frames whose id is not among the given ones, and a sentence that counts the others.

    Raises:
        ConfigError: No frame has an id.
        DataError: Nothing is left.
    """
    if not any(frame.id is not None for frame in frames):
        raise ConfigError(f"data.exclude names structures by id, but those of {file} have none; leave it out.")
    kept = [frame for frame in frames if frame.id not in ids]
    if not kept:
        raise DataError(f"data.exclude leaves nothing of the {len(frames)} structures of {file}; check the list.")
    count = f"{len(frames) - len(kept)} of {len(frames)} structures of {file}"
    return kept, [f"{count} were left out by data.exclude, which names {len(ids)} ids."]
