"""Read structures as the options ask: the one way from files to frames that every command goes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cliffordstf.data.exclusions import leave_out, read_ids
from cliffordstf.data.frame import Frame
from cliffordstf.data.free_atoms import mask_fixed_atoms
from cliffordstf.data.options import READ_AUTO, ReadOptions
from cliffordstf.data.readers import Paths, Source, joined, read_files
from cliffordstf.data.relaxations import first_with_last_energy
from cliffordstf.data.structure import Structure, as_structure
from cliffordstf.data.system_references import read_system_references, take_off
from cliffordstf.errors import ConfigError, DataError

if TYPE_CHECKING:
    from ase import Atoms

Structures = Paths | Sequence["Atoms"] | Sequence[Frame]
"""Files, or structures that are in memory already: ASE Atoms with their calculator's results, or frames."""

IN_MEMORY = Path("structures in memory")


@dataclass(frozen=True)
class Loaded:
    """Structures of one set.

    Attributes:
        frames: Labelled structures.
        sources: What each file turned out to be.
        warnings: What the user should know, once each.
    """

    frames: list[Frame]
    sources: list[Source]
    warnings: list[str]

    @property
    def source(self) -> Source:
        """All files as one."""
        return joined(self.sources, self.sources[0].path if len(self.sources) == 1 else Path("several files"))


def load_frames(data: Structures, options: ReadOptions = READ_AUTO, keep_atoms: bool = False) -> Loaded:
    """Read files and prepare the structures.

    Args:
        data: Files, folders and patterns; or a list of ASE Atoms or frames.
        options: Units, labels, selection.
        keep_atoms: Keep each structure as ASE has it, too: `frame.atoms`.

    Raises:
        DataError: Nothing to read, or nothing is left.

    Example:
        >>> from cliffordstf import datasets
        >>> loaded = load_frames(datasets.path("ethanol_gfn2"), ReadOptions(limit=3))
        >>> len(loaded.frames), loaded.warnings
        (3, [])
    """
    if is_in_memory(data):
        frames, sources = _from_memory(data, options), [_source_in_memory()]  # type: ignore[arg-type]
    else:
        frames, sources = read_files(data, options, keep_atoms)  # type: ignore[arg-type]
    name = str(sources[0].path) if len(sources) == 1 else f"the {len(sources)} files"
    warnings = list(dict.fromkeys(warning for source in sources for warning in source.warnings))
    frames, more = as_asked(frames, options, name)
    return Loaded(frames, sources, [*warnings, *more])


def as_asked(frames: list[Frame], options: ReadOptions, name: str) -> tuple[list[Frame], list[str]]:
    """Leave out and change what the options ask for.

    Args:
        frames: As they were read.
        options: What to leave out and to change.
        name: Of where they come from.

    Returns:
        The frames, and what the user should know.
    """
    warnings: list[str] = []
    if options.exclude is not None:
        frames, counts = leave_out(frames, read_ids(options.exclude), name)
        warnings += counts
    if options.system_reference is not None:
        frames = take_off(frames, read_system_references(options.system_reference), name)
    if options.relaxations:
        frames = first_with_last_energy(frames)
    if options.ignore_cells:
        frames = [replace(frame, structure=_alone(frame.structure), stress=None) for frame in frames]
    if options.free_atoms_only:
        frames, unknown = mask_fixed_atoms(frames, name)
        warnings += unknown
    return frames, warnings


def is_in_memory(data: Structures) -> bool:
    """Whether these are structures rather than names of files."""
    if isinstance(data, str | Path):
        return False
    if hasattr(data, "get_positions") or isinstance(data, Frame | Structure):
        raise ConfigError("one structure was given where a list of structures or a file is needed; put it into a list.")
    items = list(data)
    if not items:
        raise DataError("an empty list was given where structures or files are needed; give at least one.")
    return not isinstance(items[0], str | Path)


def _from_memory(items: Sequence["Atoms | Frame"], options: ReadOptions) -> list[Frame]:
    chosen = items[: options.limit]
    return [item if isinstance(item, Frame) else _frame_of(item, index) for index, item in enumerate(chosen)]


def _frame_of(atoms: "Atoms", index: int) -> Frame:
    """A frame with the results that the calculator of an ASE object holds; nothing is computed."""
    structure = as_structure(atoms, f"structure {index}")
    results = atoms.calc.results if atoms.calc is not None else {}
    stress = None
    if "stress" in results and structure.pbc.all():
        xx, yy, zz, yz, xz, xy = np.asarray(results["stress"], dtype=np.float64)
        stress = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    label = atoms.info.get("config_type")
    return Frame(
        structure,
        energy=None if "energy" not in results else float(results["energy"]),
        forces=None if "forces" not in results else np.array(results["forces"], dtype=np.float64),
        stress=stress,
        config_type=None if label is None else str(label),
        atoms=atoms,
    )


def _source_in_memory() -> Source:
    units = {"energy": "eV", "length": "Å", "forces": "eV/Å", "stress": "eV/Å³"}
    return Source(IN_MEMORY, "ASE Atoms", units, {"energy": "energy", "forces": "forces", "stress": "stress"}, ())


def _alone(structure: Structure) -> Structure:
    return Structure(structure.numbers, structure.positions, name=structure.name)
