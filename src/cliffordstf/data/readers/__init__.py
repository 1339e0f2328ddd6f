"""Read labelled structures from files; the format is recognised, never asked for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cliffordstf.data.frame import Frame
from cliffordstf.data.options import READ_AUTO, ReadOptions
from cliffordstf.data.plausibility import implausible
from cliffordstf.data.readers.convert import NO_LABEL, resolve_units, to_frames
from cliffordstf.data.readers.detect import expand, find_reader
from cliffordstf.data.readers.labels import choose_labels, missing_labels
from cliffordstf.data.readers.paths import distinct_names
from cliffordstf.data.readers.record import Contents, Source
from cliffordstf.data.units import AUTO, AUTO_KEYS, AUTO_UNITS, LabelKeys, Units
from cliffordstf.errors import CliffordSTFError, ConfigError, DataError
from cliffordstf.host.budget import Budget
from cliffordstf.options.text import did_you_mean

__all__ = ["Paths", "Source", "convert", "counted", "one_sentence", "read_files", "read_frames"]

Paths = Path | str | Sequence[Path | str]
"""A file, a folder or a pattern, or several of these."""


def read_frames(
    path: Paths, units: Units = AUTO_UNITS, keys: LabelKeys = AUTO_KEYS, limit: int | None = None
) -> tuple[list[Frame], Source]:
    """Read files, folders or glob patterns into frames in eV and Å.

    Args:
        path: Extended XYZ (also compressed), ASE .traj and .db, ASE-LMDB, npz of revised MD17 or sGDML, HDF5, a DeePMD
            folder, mlearn JSON, SDF, CIF, POSCAR, OUTCAR and other formats of ASE; OC20 and OC22 (LMDB, shards, pickled
            lists), QM9 (raw files, gdb9.sdf, `qm9pack:`) and Molecule3D as they are published; a folder of such files;
            or a pattern with `*`.
        units: Units of the files where they are not what a file states or its format is known to hold.
        keys: Names of the labels where they are not found by themselves.
        limit: Read at most this many structures.

    Returns:
        Frames named `<file>, frame <index from 0>`, and what the files turned out to be, with warnings that a user
        should see.

    Raises:
        DataError: Nothing to read, an unknown format, or a label key that is not there.
        StructureError: A structure is broken.

    Example:
        >>> from cliffordstf import datasets
        >>> frames, source = read_frames(datasets.path("ethanol_gfn2"), limit=2)
        >>> len(frames), source.format
        (2, 'extxyz')
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"limit={limit} reads nothing; give at least 1 or leave it out.")
    frames, sources = read_files(path, ReadOptions(units=units, keys=keys, limit=limit))
    return frames, joined(sources, Path("several files") if isinstance(path, list | tuple) else Path(str(path)))


def read_files(
    paths: Paths, options: ReadOptions = READ_AUTO, keep_atoms: bool = False
) -> tuple[list[Frame], list[Source]]:
    """Read files one after the other; what each turned out to be is in the second value.

    Args:
        paths: Files, folders, patterns.
        options: Units, keys and the like; of what it leaves out or changes, only `limit` is used here.
        keep_atoms: Keep each structure as ASE has it, too.
    """
    files = [file for path in _as_list(paths) for file in expand(Path(path).expanduser())]
    names = distinct_names(files)
    frames: list[Frame] = []
    parts: list[_Part] = []
    for file, name in zip(files, names, strict=True):
        left = None if options.limit is None else options.limit - len(frames)
        if left == 0:
            break
        part = _read_one(file, name, options, left, keep_atoms)
        frames.extend(part.frames)
        parts.append(part)
    _check_config_key(options.config_type, frames, parts)
    frames = _labelled(frames, parts, options.config_type)
    sources = [part.source for part in parts]
    # Only together do files tell whether a label is missing, or a number is out of line.
    warnings = (*missing_labels(sources, [key for part in parts for key in part.keys]), *implausible(frames))
    sources[-1] = replace(sources[-1], warnings=(*sources[-1].warnings, *warnings))
    return frames, sources


def _as_list(paths: Paths) -> list[Path | str]:
    return [paths] if isinstance(paths, str | Path) else list(paths)


def joined(sources: Sequence[Source], path: Path) -> Source:
    """Several files as one."""
    return Source(
        path=path,
        format=_joined(source.format for source in sources),
        units={name: _joined(source.units[name] for source in sources) for name in sources[0].units},
        keys={
            name: _joined(key for source in sources if (key := source.keys[name])) or None for name in sources[0].keys
        },
        warnings=tuple(dict.fromkeys(warning for source in sources for warning in source.warnings)),
        has_forces=any(source.has_forces for source in sources),
    )


def _joined(values: Iterable[str]) -> str:
    return " + ".join(dict.fromkeys(values))


@dataclass(frozen=True)
class _Part:
    """What was read of one file; its keys beside the labels; its name without suffix."""

    frames: list[Frame]
    source: Source
    keys: list[str]
    name: str


def _read_one(path: Path, name: str, options: ReadOptions, limit: int | None, keep_atoms: bool) -> _Part:
    budget = options.limits.budget()
    contents = counted(path, lambda: find_reader(path)(path, limit, budget), budget)
    with one_sentence(path):
        return _converted(path, contents, name, options, keep_atoms)


def convert(
    path: Path, contents: Contents, name: str, options: ReadOptions, keep_atoms: bool = False
) -> tuple[list[Frame], Source]:
    """Frames of what was read of a file by other ways than these, and what it turned out to be.

    Args:
        path: The file.
        contents: All or some of its records.
        name: Of the file in names of frames.
        options: Units, keys and the like.
        keep_atoms: Keep each structure as ASE has it, too.
    """
    with one_sentence(path):
        part = _converted(path, contents, name, options, keep_atoms)
    return part.frames, part.source


def counted(path: Path, read: Callable[[], Contents], budget: Budget) -> Contents:
    """What `read` finds in a file, or in a part of it, if it is neither nothing nor too much.

    Raises:
        DataError: There are no structures.
        LimitError: They have too many atoms.
    """
    with one_sentence(path):
        contents = read()
    if not contents.records:
        raise DataError(f"{path} holds no structures; check how it was written.")
    budget.counted(sum(len(record.numbers) for record in contents.records), str(path))
    return contents


@contextmanager
def one_sentence(path: Path) -> Iterator[None]:
    """Whatever is raised inside becomes one sentence about the file."""
    try:
        yield
    except CliffordSTFError:
        raise
    except Exception as error:  # libraries raise anything on damaged files; the user needs one sentence
        detail = " ".join(str(error).split())[:300] or "no reason given"
        raise DataError(f"{path} cannot be read ({type(error).__name__}: {detail}); check that it is whole.") from error


def _converted(path: Path, contents: Contents, name: str, options: ReadOptions, keep_atoms: bool) -> _Part:
    chosen = choose_labels(contents, options.keys, name)
    units = resolve_units(options.units, contents, chosen)
    frames, warnings = to_frames(contents, chosen, units, name, options, keep_atoms)
    all_warnings = (*contents.warnings, *chosen.warnings, *warnings)
    source = Source(path, contents.format, units.as_dict(), chosen.as_dict(), all_warnings, contents.has_forces)
    keys = list(dict.fromkeys(key for record in contents.records for key in record.properties))
    return _Part(frames, source, keys, name)


def _check_config_key(asked: str, frames: Sequence[Frame], parts: Sequence[_Part]) -> None:
    if asked in (AUTO, *NO_LABEL) or any(frame.config_type is not None for frame in frames):
        return
    keys = list(dict.fromkeys(key for part in parts for key in part.keys))
    raise DataError(
        f"no structure has a key '{asked}' with one value{did_you_mean(asked, keys)}; the keys are: "
        f"{', '.join(keys[:30]) or 'none'}; data.config_type (--config-type) takes one of them, 'file' or 'none'."
    )


def _labelled(frames: list[Frame], parts: Sequence[_Part], asked: str) -> list[Frame]:
    """Frames labelled by their file where that is asked for, or where several files have no labels of their own."""
    by_file = asked == "file" or (
        asked == AUTO and len(parts) > 1 and all(frame.config_type is None for frame in frames)
    )
    if not by_file:
        return frames
    labels = [Path(part.name).name.split(".")[0] for part in parts]
    if len(set(labels)) < len(labels):
        labels = [part.name for part in parts]
    return [
        replace(frame, config_type=label) for part, label in zip(parts, labels, strict=True) for frame in part.frames
    ]
