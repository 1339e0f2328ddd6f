"""What a simulation writes: a CSV log and a trajectory, both flushed row by row."""

import csv
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import iread, write
from ase.io.trajectory import Trajectory

from cliffordstf.data.ase_structures import without_labels
from cliffordstf.errors import DataError
from cliffordstf.simulate.guards import SimulationError

COLUMNS = ("step", "time_ps", "potential_ev", "kinetic_ev", "total_ev", "temperature_k")
BOX_COLUMNS = ("volume_a3", "density_g_cm3", "pressure_gpa")
ENSEMBLE_COLUMNS = ("energy_std_ev", "max_force_std_ev_per_a")


class CsvLog:
    """A CSV file with one row per logged step; energies in eV, time in ps, temperature in K.

    Args:
        path: Where to write.
        ensemble: Add the columns of the spread of an ensemble of potentials.
        resume_from: Keep rows up to this step and go on after them; None starts a new file.
        box: Add the columns of the box: Å³, g/cm³ and GPa.
    """

    def __init__(self, path: Path, ensemble: bool = False, resume_from: int | None = None, box: bool = False) -> None:
        self.path = path
        columns = COLUMNS + (BOX_COLUMNS if box else ()) + (ENSEMBLE_COLUMNS if ensemble else ())
        kept = [] if resume_from is None else _rows_up_to(path, resume_from, columns)
        self._stream = _open_for_writing(path)
        self._writer = csv.writer(self._stream, lineterminator="\n")
        self._writer.writerow(columns)
        self._writer.writerows(kept)
        self._stream.flush()
        self.last_step = int(kept[-1][0]) if kept else -1

    def add(self, step: int, *values: float) -> None:
        """Write a row, unless a resumed file has it already; every digit of the energies is kept."""
        if step > self.last_step:
            self._writer.writerow([step, *(repr(float(value)) for value in values)])
            self._stream.flush()
            self.last_step = step

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def _rows_up_to(path: Path, last_step: int, columns: Sequence[str]) -> list[list[str]]:
    """The rows of a log up to a step, with `nan` in columns that it does not have."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        header, *rows = list(csv.reader(stream)) or [[]]
    if rows and "step" not in header:
        raise SimulationError(f"cannot go on with the log {path}: it has no column 'step'; move it away.")
    # A run that was killed may have left half a row, and rows after its last restart file.
    complete = (dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header))
    return [[row.get(name, "nan") for name in columns] for row in complete if int(row["step"]) <= last_step]


def _open_for_writing(path: Path) -> Any:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("w", newline="", encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}; check the folder and the disk.") from error


class TrajectoryFile:
    """Frames in ASE's `.traj` format or as extxyz, each complete on disk when `add` returns.

    Args:
        path: The suffix `.traj` chooses ASE's binary format, everything else is extxyz.
        resume_from: Keep frames up to this step; None starts a new file.
    """

    def __init__(self, path: Path, resume_from: int | None = None) -> None:
        self.path = path
        self.last_step = -1
        if resume_from is not None and path.is_file():
            self.last_step = _trim(path, resume_from)
        else:
            # Made and removed: a folder that cannot be written to is found before the first step.
            _open_for_writing(path).close()
            path.unlink()

    def add(self, atoms: Atoms, step: int) -> None:
        """Append a frame with its energy, forces and momenta, unless a resumed file has it already."""
        if step > self.last_step:
            append_frame(self.path, frozen(atoms, step=step))
            self.last_step = step


def frozen(atoms: Atoms, **info: Any) -> Atoms:
    """A copy of atoms with the results its calculator has now, and with additions to `info`."""
    frame = without_labels(atoms)
    frame.info.update(info)
    known = ("energy", "forces", "stress")
    results = {name: value for name, value in atoms.calc.results.items() if name in known}
    frame.calc = SinglePointCalculator(frame, **results)
    return frame


def append_frame(path: Path, frame: Atoms) -> None:
    """Append one frame to a `.traj` or extxyz file."""
    try:
        if path.suffix == ".traj":
            with Trajectory(str(path), "a") as stream:
                stream.write(frame)
        else:
            write(str(path), frame, format="extxyz", append=True)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}; check the folder and the disk.") from error


def _trim(path: Path, last_step: int) -> int:
    """Drop frames after a step; returns the step of the last frame that stays."""
    kept, dropped = -1, False
    part = path.with_name(f".{path.stem}.part{path.suffix}")
    part.unlink(missing_ok=True)
    try:
        for frame in iread(str(path), index=":"):
            step = int(frame.info["step"])
            if step > last_step:
                dropped = True
                break
            append_frame(part, frame)
            kept = step
    except Exception as error:
        if kept < 0:
            raise SimulationError(
                f"cannot go on with the trajectory {path} ({type(error).__name__}: {error}); move it away."
            ) from error
        dropped = True  # A run that was killed may have left half a frame; what was read before it is good.
    if dropped:
        path.unlink()
        if part.exists():
            part.replace(path)
    part.unlink(missing_ok=True)
    return kept
