"""Read labelled structures from files; the format is recognised, never asked for."""

from collections.abc import Iterable
from pathlib import Path

from cliffordstf.data.frame import Frame
from cliffordstf.data.readers.convert import resolve_units, to_frames
from cliffordstf.data.readers.detect import expand, find_reader
from cliffordstf.data.readers.labels import choose_labels
from cliffordstf.data.readers.plausibility import implausible
from cliffordstf.data.readers.record import Contents, Source
from cliffordstf.data.units import AUTO_KEYS, AUTO_UNITS, LabelKeys, Units
from cliffordstf.errors import CliffordSTFError, ConfigError, DataError

__all__ = ["Source", "read_frames"]


def read_frames(
    path: Path | str, units: Units = AUTO_UNITS, keys: LabelKeys = AUTO_KEYS, limit: int | None = None
) -> tuple[list[Frame], Source]:
    """Read a file, a folder or a glob pattern into frames in eV and Å.

    Args:
        path: Extended XYZ (also compressed), ASE .traj and .db, ASE-LMDB, npz of revised MD17 or sGDML, HDF5, a DeePMD
            folder, mlearn JSON, SDF; OC20 and OC22 (LMDB, shards, pickled lists), QM9 (raw files, gdb9.sdf, `qm9pack:`)
            and Molecule3D as they are published; a folder of such files; or a pattern with `*`.
        units: Units of the file where they are not what the file states or its format is known to hold.
        keys: Names of the labels where they are not found by themselves.
        limit: Read at most this many structures.

    Returns:
        Frames named `<file>, frame <index from 0>`, and what the file turned out to be, with warnings that a user
        should see.

    Raises:
        DataError: Nothing to read, an unknown format, or a label key that is not there.
        StructureError: A structure is broken.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"limit={limit} reads nothing; give at least 1 or leave it out.")
    path = Path(path).expanduser()
    frames: list[Frame] = []
    sources: list[Source] = []
    for file in expand(path):
        left = None if limit is None else limit - len(frames)
        if left == 0:
            break
        found, source = _read_one(file, units, keys, left)
        frames.extend(found)
        sources.append(source)
    warnings = [warning for source in sources for warning in source.warnings] + implausible(frames)
    return frames, Source(
        path=path,
        format=_joined(source.format for source in sources),
        units={name: _joined(source.units[name] for source in sources) for name in sources[0].units},
        keys={
            name: _joined(key for source in sources if (key := source.keys[name])) or None for name in sources[0].keys
        },
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _joined(values: Iterable[str]) -> str:
    return " + ".join(dict.fromkeys(values))


def _read_one(path: Path, units: Units, keys: LabelKeys, limit: int | None) -> tuple[list[Frame], Source]:
    name = path.name or path.resolve().name
    contents = _contents(path, limit)
    if not contents.records:
        raise DataError(f"{path} holds no structures; check how it was written.")
    chosen = choose_labels(contents, keys, name)
    file_units = resolve_units(units, contents, chosen)
    frames, warnings = to_frames(contents, chosen, file_units, name)
    all_warnings = (*contents.warnings, *chosen.warnings, *warnings)
    return frames, Source(path, contents.format, file_units.as_dict(), chosen.as_dict(), all_warnings)


def _contents(path: Path, limit: int | None) -> Contents:
    try:
        return find_reader(path)(path, limit)
    except CliffordSTFError:
        raise
    except Exception as error:  # libraries raise anything on damaged files; the user needs one sentence
        detail = " ".join(str(error).split()) or "no reason given"
        raise DataError(f"{path} cannot be read ({type(error).__name__}: {detail}); check that it is whole.") from error
