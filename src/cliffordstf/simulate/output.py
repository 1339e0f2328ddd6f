"""What a simulation writes: a CSV log and a trajectory, both flushed row by row."""

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import iread, write
from ase.io.trajectory import Trajectory

from cliffordstf.data.ase_structures import without_labels
from cliffordstf.host.files import not_written, opened, write_atomically, write_text
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
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows([columns, *kept])
        write_text(path, text.getvalue())  # the rows of the earlier run are never absent
        self._stream = opened(path)
        self._writer = csv.writer(self._stream, lineterminator="\n")
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
    complete = [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]
    damaged = next((row["step"] for row in complete if not row["step"].isdigit()), None)
    if damaged is not None:
        raise SimulationError(f"cannot go on with the log {path}: it has a step '{damaged}'; move it away.")
    return [[row.get(name, "nan") for name in columns] for row in complete if int(row["step"]) <= last_step]


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
            with opened(path, "w"):
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
        raise not_written(path, error) from error


def _trim(path: Path, last_step: int) -> int:
    """Drop frames after a step; returns the step of the last frame that stays.

    Raises:
        SimulationError: A frame is damaged and others follow it, which must not be lost.
    """
    steps, end = (_traj_steps if path.suffix == ".traj" else _extxyz_steps)(path)
    kept = [step for step in steps if step <= last_step]
    if path.suffix != ".traj":
        # One call that cuts the file: a kill leaves it as it was or as it shall be.
        place = end[len(kept)]
        if place < path.stat().st_size:
            os.truncate(path, place)
    elif len(kept) < len(end) - 1:
        with Trajectory(str(path)) as source:
            frames = [source[index] for index in range(len(kept))]
        _rewrite(path, frames)
    return kept[-1] if kept else -1


def _rewrite(path: Path, frames: Sequence[Atoms]) -> None:
    if not frames:
        path.unlink()
        return

    def write_to(target: Path) -> None:
        with Trajectory(str(target), "w") as stream:
            for frame in frames:
                stream.write(frame)

    write_atomically(path, write_to)


def _extxyz_steps(path: Path) -> tuple[list[int], list[int]]:
    """Steps of the whole frames, and where each frame begins and the last of them ends, bytes."""
    steps: list[int] = []
    places = [0]
    content = path.read_bytes()
    while places[-1] < len(content):
        try:
            end = _frame_end(content, places[-1])
            frame = next(iread(io.StringIO(content[places[-1] : end].decode()), index=":", format="extxyz"))
            step = int(frame.info["step"])
        except Exception as error:
            if b"step=" in b"".join(content[places[-1] :].split(b"\n", 2)[2:]) or not steps:
                raise _damaged(path, len(steps), error) from error
            break  # a run that was killed left a part of its last frame
        steps.append(step)
        places.append(end)
    return steps, places


def _frame_end(content: bytes, start: int) -> int:
    """Where the frame that begins at a byte ends."""
    end = content.index(b"\n", start)
    for _ in range(int(content[start:end]) + 1):
        end = content.index(b"\n", end + 1)
    return end + 1


def _traj_steps(path: Path) -> tuple[list[int], list[int]]:
    """Steps of the whole frames, and the numbers of all frames and one more."""
    steps: list[int] = []
    try:
        with Trajectory(str(path)) as frames:
            count = len(frames)
            for index in range(count):
                try:
                    steps.append(int(frames[index].info["step"]))
                except Exception as error:
                    if index < count - 1 or not steps:
                        raise _damaged(path, index, error) from error
    except SimulationError:
        raise
    except Exception as error:
        raise _damaged(path, 0, error) from error
    return steps, list(range(count + 1))


def _damaged(path: Path, frame: int, error: Exception) -> SimulationError:
    return SimulationError(
        f"cannot go on with the trajectory {path}: its frame {frame} is damaged ({type(error).__name__}: {error}); "
        "nothing was changed, move it away."
    )
