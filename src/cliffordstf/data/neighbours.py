"""Neighbour lists behind one function: vesin, or plain PyTorch where vesin cannot be imported.

A directed edge runs from a sender j to a receiver i. Its vector is r_j + S·cell - r_i, from the receiver to the
(periodic image of the) sender. Every pair within the cutoff appears in both directions, images of an atom itself
included, so cells smaller than the cutoff need nothing special. No neighbour is ever dropped to keep a count down.
"""

import logging
import math
import operator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from cliffordstf.data.structure import FloatArray, IntArray, Structure, symbol
from cliffordstf.errors import StructureError

try:
    import vesin
except ImportError:  # pragma: no cover - exercised by the fallback test through `backend="torch"`
    vesin = None

logger = logging.getLogger(__name__)

STRETCH = 4096
"""Edges whose vectors are in memory at once: few enough for a cache, and for memory that is used again."""

SHORTEST_DISTANCE = 1e-3
"""Å; atoms closer than this are taken for a mistake in the file."""


@dataclass(frozen=True)
class NeighbourList:
    """Directed edges of one structure, sorted by receiver, then sender, then shift.

    Attributes:
        senders: Index of atom j, (edges,).
        receivers: Index of atom i, (edges,), never decreasing.
        shifts: Whole lattice vectors added to the sender, (edges, 3).
    """

    senders: IntArray
    receivers: IntArray
    shifts: IntArray

    @cached_property
    def cross(self) -> bool:
        """Whether any edge leaves the cell."""
        return bool(self.shifts.any())

    @cached_property
    def reverse(self) -> IntArray:
        """For every edge the index of the one the other way round, (edges,)."""
        # Edges are sorted by (receiver, sender, shift): the k-th by (sender, receiver, -shift) is edge k turned round.
        x, y, z = -self.shifts.T
        order = np.lexsort((z, y, x, self.receivers, self.senders))
        if not (
            np.array_equal(self.senders[order], self.receivers)
            and np.array_equal(self.receivers[order], self.senders)
            and np.array_equal(-self.shifts[order], self.shifts)
        ):
            raise StructureError("the neighbour list is not symmetric: an edge has no reverse; make a full list.")
        return order

    def select(self, keep: NDArray[np.bool_]) -> "NeighbourList":
        """The edges that a mask keeps, which must keep an edge if it keeps its reverse."""
        kept = NeighbourList(self.senders[keep], self.receivers[keep], self.shifts[keep])
        # Renumbered rather than sorted again: filtering a list with a margin happens at every step of a simulation.
        numbers = np.cumsum(keep) - 1
        kept.__dict__["reverse"] = numbers[self.reverse[keep]]
        return kept


def neighbour_list(
    structure: Structure, cutoff: float, backend: str | None = None, check: bool = True
) -> NeighbourList:
    """All directed edges of a structure up to a cutoff.

    Args:
        structure: Checked structure.
        cutoff: Å.
        backend: `vesin` or `torch`; by default vesin where it is installed.
        check: Refuse atoms on the same spot.

    Raises:
        StructureError: Two atoms sit on the same spot.
    """
    _check_density(structure, cutoff)
    backend = backend or ("vesin" if vesin is not None else "torch")
    find = {"vesin": _by_vesin, "torch": _by_torch}[backend]
    receivers, senders, shifts = find(structure, cutoff)
    order = np.lexsort((shifts[:, 2], shifts[:, 1], shifts[:, 0], senders, receivers))
    edges = NeighbourList(senders[order], receivers[order], shifts[order])
    if check:
        _check_distances(structure, edges)
    return edges


MOST_IMAGES = 100_000
"""Copies of a cell within the cutoff; one atom in a cell of 0.4 Å and a cutoff of 6 Å have 30,000."""
FEW = 1000
DENSEST = 20.0
"""Atoms per Å³. Hydrogen in the middle of Jupiter has about 1."""


def _check_density(structure: Structure, cutoff: float) -> None:
    """Refuse what would take hours and all memory: a cell that is nearly flat, atoms heaped on a spot.

    Raises:
        StructureError: There would be too many neighbours.
    """
    if not structure.pbc.any() and len(structure) < FEW:
        return  # at worst half a million pairs
    images, volume, is_bulk = 1.0, 0.0, bool(structure.pbc.all())
    if structure.pbc.any():
        # Plain numbers: NumPy would take as long as the search itself for a small cell.
        vectors = (structure.cell if is_bulk else structure.full_cell()).tolist()
        faces = [_cross(vectors[axis - 2], vectors[axis - 1]) for axis in range(3)]
        volume = max(abs(sum(map(operator.mul, vectors[0], faces[0]))), 1e-30)
        for face, repeats in zip(faces, structure.pbc.tolist(), strict=True):
            if repeats:
                images *= 2 * math.ceil(cutoff * math.hypot(*face) / volume) + 1
    room = volume if is_bulk else max(volume, float(np.prod(np.ptp(structure.positions, axis=0) + 1.0)))
    if images > MOST_IMAGES or len(structure) > DENSEST * room:
        raise StructureError(
            f"{structure.name} has {len(structure) / room:.3g} atoms per Å³, or a cell with {images:.3g} copies within "
            f"{cutoff:g} Å; no matter is as dense, check the lattice and the unit of length."
        )


def _cross(a: list[float], b: list[float]) -> list[float]:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _by_vesin(structure: Structure, cutoff: float) -> tuple[IntArray, IntArray, IntArray]:
    # One thread: lists are small, and data loaders run several of these side by side.
    search = vesin.NeighborList(cutoff=cutoff, full_list=True, n_threads=1)
    i, j, shifts = search.compute(
        points=structure.positions,
        box=structure.full_cell() if structure.pbc.any() else np.zeros((3, 3)),
        periodic=structure.pbc,
        quantities="ijS",
    )
    return i.astype(np.int64), j.astype(np.int64), shifts.astype(np.int64)


def _by_torch(structure: Structure, cutoff: float) -> tuple[IntArray, IntArray, IntArray]:
    """Every pair of atoms times every image that can reach: exact, quadratic in atoms, chunked over receivers."""
    cell = torch.from_numpy(structure.full_cell())
    # Positions may lie outside the cell; folding them back bounds the images needed. The fold is undone below.
    fractional = torch.from_numpy(structure.positions) @ torch.linalg.inv(cell)
    fold = torch.floor(fractional) * torch.from_numpy(structure.pbc)
    positions = torch.from_numpy(structure.positions) - fold @ cell
    heights = 1 / torch.linalg.inv(cell).norm(dim=0)
    reach = [int(np.ceil(cutoff / float(h))) if p else 0 for h, p in zip(heights, structure.pbc, strict=True)]
    images = torch.cartesian_prod(*(torch.arange(-n, n + 1, dtype=torch.float64) for n in reach))
    replicas = positions[None] + (images @ cell)[:, None]
    found: list[tuple[IntArray, IntArray, IntArray]] = []
    for i in range(len(structure)):
        distance = (replicas - positions[i]).norm(dim=-1)
        image, j = torch.nonzero(distance < cutoff, as_tuple=True)
        itself = (j == i) & (images[image] == 0).all(dim=1)
        image, j = image[~itself], j[~itself]
        shifts = images[image] - fold[j] + fold[i]
        found.append((np.full(len(j), i, dtype=np.int64), j.numpy(), shifts.round().long().numpy()))
    receivers, senders, all_shifts = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return receivers, senders, all_shifts


def _check_distances(structure: Structure, edges: NeighbourList) -> None:
    if len(edges.senders) == 0:
        return
    distances = edge_lengths(structure.positions, structure.cell, edges)
    closest = int(distances.argmin())
    if distances[closest] < SHORTEST_DISTANCE:
        i, j = int(edges.receivers[closest]), int(edges.senders[closest])
        raise StructureError(
            f"{structure.name} has atoms {i} ({symbol(int(structure.numbers[i]))}) and {j} "
            f"({symbol(int(structure.numbers[j]))}) on the same spot ({distances[closest]:.1e} Å apart); remove one "
            "of them or check the cell."
        )


def edge_vectors(
    positions: FloatArray, cell: FloatArray, edges: NeighbourList, part: slice = slice(None)
) -> FloatArray:
    """Vectors from receivers to senders, Å, (edges, 3), of all edges or a part."""
    result: FloatArray = positions[edges.senders[part]] - positions[edges.receivers[part]]
    if edges.cross:
        result += edges.shifts[part] @ cell
    return result


def edge_lengths(positions: FloatArray, cell: FloatArray, edges: NeighbourList) -> FloatArray:
    """Lengths of the vectors from receivers to senders, Å, (edges,)."""
    lengths = np.empty(len(edges.senders))
    for start in range(0, len(lengths), STRETCH):
        part = slice(start, start + STRETCH)
        vectors = edge_vectors(positions, cell, edges, part)
        np.einsum("ei,ei->e", vectors, vectors, out=lengths[part])
    return np.sqrt(lengths, out=lengths)
