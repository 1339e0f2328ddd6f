"""Several structures side by side in one set of tensors: what every model takes."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from cliffordstf.algebra.repulsion import floored_vectors
from cliffordstf.data.neighbours import NeighbourList, neighbour_list
from cliffordstf.data.structure import IntArray, Structure, as_structure
from cliffordstf.errors import StructureError
from cliffordstf.graph import EdgeIndex

if TYPE_CHECKING:
    from ase import Atoms


@dataclass(frozen=True)
class Batch:
    """Structures with their edges, concatenated; atoms of one structure are contiguous.

    Attributes:
        numbers: Atomic numbers, int64 (atoms,).
        positions: Å, float64 (atoms, 3).
        cell: Lattice vectors as rows, Å, float64 (structures, 3, 3); zeros where there is none.
        pbc: Periodic directions, bool (structures, 3).
        structure_of_atom: int64 (atoms,), never decreasing.
        edges: Directed edges, sorted by receiver.
        shifts: Whole lattice vectors added to the sender, float64 (edges, 3).
        size: Number of structures.
        periodic: Whether any edge crosses a cell boundary.
        elements: Atomic numbers that occur, known on the host so that checks need no device synchronisation.
        names: How errors refer to the structures.
        cutoff: Å, of the neighbour lists.
        floor: Å, (pairs,): vectors of closer pairs keep their direction but hardly get shorter, see
            `cliffordstf.algebra.repulsion`; None for vectors as they are.
    """

    numbers: Tensor
    positions: Tensor
    cell: Tensor
    pbc: Tensor
    structure_of_atom: Tensor
    edges: EdgeIndex
    shifts: Tensor
    size: int
    periodic: bool
    elements: tuple[int, ...]
    names: tuple[str, ...]
    cutoff: float
    floor: Tensor | None = None

    @property
    def senders(self) -> Tensor:
        """int64 (edges,)."""
        return self.edges.senders

    @property
    def receivers(self) -> Tensor:
        """int64 (edges,); never decreasing."""
        return self.edges.receivers

    def vectors(self) -> Tensor:
        """Vectors from receivers to senders, Å, (edges, 3), in the dtype of the positions."""
        vectors = self._vectors(self.senders, self.receivers, self.shifts)
        if self.floor is None:
            return vectors
        return floored_vectors(vectors, self.floor.index_select(0, self.edges.pair))

    def pair_vectors(self) -> Tensor:
        """Vectors of the straight edge of each pair, Å, (pairs, 3), in the dtype of the positions."""
        straight = self.edges.pair_edges[:, 0]
        shifts = self.shifts.index_select(0, straight) if self.periodic else self.shifts
        ends = self.senders.index_select(0, straight), self.receivers.index_select(0, straight)
        vectors = self._vectors(*ends, shifts)
        return vectors if self.floor is None else floored_vectors(vectors, self.floor)

    def _vectors(self, senders: Tensor, receivers: Tensor, shifts: Tensor) -> Tensor:
        # index_select, not indexing: its gradient adds up in a fixed order.
        direct = self.positions.index_select(0, senders) - self.positions.index_select(0, receivers)
        if not self.periodic:
            return direct
        if self.size == 1:
            return direct + shifts @ self.cell[0]
        cells = self.cell.index_select(0, self.structure_of_atom.index_select(0, receivers))
        return direct + torch.einsum("ei,eij->ej", shifts, cells)

    def volumes(self) -> Tensor:
        """Cell volumes, Å³, (structures,); zero where there is no three-dimensional cell."""
        return torch.linalg.det(self.cell).abs()

    def atoms_per_structure(self) -> Tensor:
        """int64 (structures,)."""
        return torch.bincount(self.structure_of_atom, minlength=self.size)

    def with_geometry(self, positions: Tensor, cell: Tensor) -> "Batch":
        """The same edges with other positions and cells, as derivatives need it."""
        moved = object.__new__(Batch)  # `replace` takes ten times as long, which a step of dynamics feels
        moved.__dict__.update(self.__dict__, positions=positions, cell=cell)
        return moved

    def to(self, device: torch.device | str) -> "Batch":
        """Move every tensor to a device."""
        moved: dict[str, Any] = {
            item.name: value.to(device)
            for item in fields(self)
            if isinstance(value := getattr(self, item.name), Tensor | EdgeIndex)
        }
        return replace(self, **moved)


def make_batch(
    structures: "Sequence[Structure | Atoms] | Structure | Atoms",
    cutoff: float,
    neighbour_lists: Sequence[NeighbourList] | None = None,
) -> Batch:
    """Concatenate structures, with neighbour lists made here unless they are given.

    Args:
        structures: One or many structures or ASE Atoms.
        cutoff: Å.
        neighbour_lists: One per structure, for example from a cache.
    """
    if isinstance(structures, Structure) or hasattr(structures, "get_positions"):
        checked = [as_structure(structures)]  # type: ignore[arg-type]
    else:
        checked = [as_structure(value, f"structure {index}") for index, value in enumerate(structures)]
    if not checked:
        raise StructureError("no structures were given; a batch needs at least one.")
    lists = neighbour_lists or [neighbour_list(structure, cutoff) for structure in checked]
    counts = np.array([len(structure) for structure in checked])
    starts = np.concatenate([[0], np.cumsum(counts)])
    receivers = _joined([edges.receivers for edges in lists], starts)
    senders = _joined([edges.senders for edges in lists], starts)
    reverse = _joined([edges.reverse for edges in lists], np.cumsum([0, *(len(edges.senders) for edges in lists)]))
    shifts = lists[0].shifts if len(lists) == 1 else np.concatenate([edges.shifts for edges in lists])
    numbers = np.concatenate([structure.numbers for structure in checked])
    return Batch(
        numbers=torch.from_numpy(numbers),
        positions=torch.from_numpy(np.concatenate([structure.positions for structure in checked])),
        cell=torch.from_numpy(np.stack([structure.cell for structure in checked])),
        pbc=torch.from_numpy(np.stack([structure.pbc for structure in checked])),
        structure_of_atom=torch.from_numpy(np.repeat(np.arange(len(checked)), counts)),
        edges=EdgeIndex.from_reverse(
            torch.from_numpy(senders),
            torch.from_numpy(receivers),
            torch.from_numpy(np.searchsorted(receivers, np.arange(len(numbers) + 1))),
            torch.from_numpy(reverse),
        ),
        shifts=torch.from_numpy(shifts.astype(np.float64)),
        size=len(checked),
        periodic=any(edges.cross for edges in lists),
        elements=tuple(int(number) for number in np.unique(numbers)),
        names=tuple(structure.name for structure in checked),
        cutoff=cutoff,
    )


def _joined(indices: Sequence[IntArray], firsts: IntArray) -> IntArray:
    """Indices of one structure after the other, each counted on from its first; those of one alone are not copied."""
    if len(indices) == 1:
        return indices[0]
    return np.concatenate([part + first for part, first in zip(indices, firsts, strict=False)])
