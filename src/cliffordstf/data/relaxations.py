"""Relaxations as one structure each: where it began, with the energy where it ended."""

from collections.abc import Sequence
from dataclasses import replace

from cliffordstf.data.frame import Frame


def first_with_last_energy(frames: Sequence[Frame]) -> list[Frame]:
    """The first structure of every relaxation with the energy of its last one, and no forces or stress.

    Frames belong together by their id, or where they have none by the file that they come from; they are in the order
    of the relaxation.
    """
    together: dict[int | str, list[Frame]] = {}
    for frame in frames:
        together.setdefault(_relaxation(frame), []).append(frame)
    return [replace(steps[0], energy=steps[-1].energy, forces=None, stress=None) for steps in together.values()]


def _relaxation(frame: Frame) -> int | str:
    """Frames are named `<file>, frame <index>`."""
    return frame.structure.name.rpartition(", frame ")[0] if frame.id is None else frame.id
