"""Structures as they are, for another format."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cliffordstf.data.frame import Frame
from cliffordstf.data.readers.atoms import labelled_atoms
from cliffordstf.data.structure import formula
from cliffordstf.screening.task import Processed


@dataclass(frozen=True)
class ConvertTask:
    """Keep every structure and its labels, in eV and Å."""

    @property
    def columns(self) -> Sequence[str]:
        """Of the rows."""
        return ("structure", "formula", "atoms", "energy_ev", "config_type")

    def describe(self) -> dict[str, Any]:
        """Everything that results depend on."""
        return {"task": "convert"}

    def __call__(self, frames: Sequence[Frame]) -> Iterator[Processed]:
        """The structures of a shard."""
        for frame in frames:
            row = {
                "structure": frame.structure.name,
                "formula": formula(frame.structure),
                "atoms": len(frame.structure),
                "energy_ev": frame.energy,
                "config_type": frame.config_type,
            }
            yield Processed(frame, labelled_atoms(frame), row)
