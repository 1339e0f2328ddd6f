"""What a task is: something that is done with every structure of a shard."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from cliffordstf.data.frame import Frame

if TYPE_CHECKING:
    from ase import Atoms


@dataclass(frozen=True)
class Processed:
    """A structure and what was found.

    Attributes:
        frame: With the results as labels, for shards.
        atoms: With the results as ASE has them, for extended XYZ.
        row: Numbers for a table, by column.
    """

    frame: Frame
    atoms: "Atoms"
    row: Mapping[str, Any]


class Task(Protocol):
    """Done with every structure of a shard; made of plain values, because it is sent to other processes."""

    @property
    def columns(self) -> Sequence[str]:
        """Of the rows."""
        ...

    def describe(self) -> dict[str, Any]:
        """Everything that results depend on, as plain values."""
        ...

    def __call__(self, frames: Sequence[Frame]) -> Iterator[Processed]:
        """Results of the structures of a shard, in order. They depend on nothing but the shard."""
        ...
