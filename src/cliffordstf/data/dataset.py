"""Frames with their neighbour lists, and batches of them."""

import hashlib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cliffordstf.data.batch import Batch, make_batch
from cliffordstf.data.frame import Frame
from cliffordstf.data.neighbours import NeighbourList, neighbour_list
from cliffordstf.data.shards.stored import StoredFrames, sizes_of
from cliffordstf.host.files import write_atomically


@dataclass(frozen=True)
class LabelledBatch:
    """A batch with its labels; what is not known is NaN.

    Attributes:
        batch: The structures.
        energy: eV, float64 (structures,).
        forces: eV/Å, float64 (atoms, 3).
        stress: eV/Å³, float64 (structures, 3, 3).
        weights: Of energy, forces and stress of each structure in the loss, float64 (structures, 3); None where all
            are 1.
    """

    batch: Batch
    energy: Tensor
    forces: Tensor
    stress: Tensor
    weights: Tensor | None = None

    def to(self, device: torch.device | str) -> "LabelledBatch":
        """Move every tensor to a device."""
        return replace(
            self,
            batch=self.batch.to(device),
            energy=self.energy.to(device),
            forces=self.forces.to(device),
            stress=self.stress.to(device),
            weights=None if self.weights is None else self.weights.to(device),
        )


ROOM = 80_000_000
"""Directed edges whose lists a data set keeps, about 4 GB; those of further frames are made when they are asked for."""


FEW = 100
"""Structures on disk from which the number of edges of the others is estimated, about."""


class Dataset:
    """Labelled structures whose neighbour lists are made once, as long as there is room for them.

    Of frames that stay on disk (`StoredFrames`) nothing is kept: structures are read, and their lists made, for each
    batch.

    Args:
        frames: Labelled structures.
        cutoff: Å, of the neighbour lists.
        cache: A file to keep the neighbour lists in between runs; by default they live in memory only. A cache that
            belongs to other structures or another cutoff is made anew. Lists that have no room are not kept there.
        room: Directed edges to keep the lists of.
    """

    def __init__(self, frames: Sequence[Frame], cutoff: float, cache: Path | None = None, room: int = ROOM) -> None:
        self.frames: Sequence[Frame] = frames if isinstance(frames, StoredFrames) else list(frames)
        self.cutoff = cutoff
        self.atoms: NDArray[np.int64] = sizes_of(self.frames)
        """Of each frame, (frames,)."""
        self._lists: list[NeighbourList] = []
        """Of the first frames, as many as there is room for."""
        self.edges: NDArray[np.int64] = np.zeros(len(self.frames), dtype=np.int64)
        """Directed edges of each frame, (frames,); of frames on disk an estimate from their atoms."""
        if isinstance(frames, StoredFrames):
            self.edges = self._estimated_edges()
            return
        stored = self._load(cache) if cache is not None and cache.is_file() else None
        for index in range(len(self.frames)):
            edges = neighbour_list(self.frames[index].structure, self.cutoff) if stored is None else stored[index]
            self.edges[index] = len(edges.senders)
            room -= len(edges.senders)
            if room >= 0:
                self._lists.append(edges)
        if cache is not None and stored is None and len(self._lists) == len(self):
            self._store(cache)

    def __len__(self) -> int:
        return len(self.frames)

    def neighbours(self, index: int, frame: Frame | None = None) -> NeighbourList:
        """The neighbour list of a frame, which need not be read again where it is at hand."""
        if index < len(self._lists):
            return self._lists[index]
        return neighbour_list((self.frames[index] if frame is None else frame).structure, self.cutoff)

    def _estimated_edges(self) -> NDArray[np.int64]:
        """Atoms times the mean number of neighbours of some structures."""
        some = self.frames[:: max(1, len(self.frames) // FEW)]
        edges = sum(len(neighbour_list(frame.structure, self.cutoff).senders) for frame in some)
        return np.round(self.atoms * (edges / max(1, sum(len(frame.structure) for frame in some)))).astype(np.int64)

    def average_neighbours(self) -> float:
        """Mean number of neighbours of an atom, at least one."""
        return max(1.0, float(self.edges.sum() / self.atoms.sum()))

    def batch(self, indices: Sequence[int]) -> LabelledBatch:
        """Collate some of the frames."""
        frames = [self.frames[index] for index in indices]
        lists = [self.neighbours(index, frame) for index, frame in zip(indices, frames, strict=True)]
        energy = [np.nan if frame.energy is None else frame.energy for frame in frames]
        forces = [np.full((len(f.structure), 3), np.nan) if f.forces is None else f.forces for f in frames]
        stress = [np.full((3, 3), np.nan) if frame.stress is None else frame.stress for frame in frames]
        weights = [frame.weights for frame in frames]
        is_plain = all(weight == 1 for of_frame in weights for weight in of_frame)
        return LabelledBatch(
            batch=make_batch([frame.structure for frame in frames], self.cutoff, lists),
            energy=torch.tensor(energy, dtype=torch.float64),
            forces=torch.from_numpy(np.concatenate(forces)),
            stress=torch.from_numpy(np.stack(stress)),
            weights=None if is_plain else torch.tensor(weights, dtype=torch.float64),
        )

    def batches(self, plan: "BatchPlan", order: NDArray[np.int64] | None = None) -> Iterator[LabelledBatch]:
        """Batches of all frames, in the given order or as they come."""
        for indices in plan.split(self, np.arange(len(self)) if order is None else order):
            yield self.batch(indices)

    def _fingerprint(self) -> str:
        digest = hashlib.sha256(repr(self.cutoff).encode())
        for frame in self.frames:
            for array in (frame.structure.positions, frame.structure.cell, frame.structure.pbc):
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _store(self, cache: Path) -> None:
        lists = self._lists

        def write(target: Path) -> None:
            with target.open("wb") as stream:  # a stream, because savez would add .npz to a name
                np.savez(
                    stream,
                    fingerprint=np.array(self._fingerprint()),
                    counts=self.edges,
                    senders=np.concatenate([edges.senders for edges in lists]),
                    receivers=np.concatenate([edges.receivers for edges in lists]),
                    shifts=np.concatenate([edges.shifts for edges in lists]),
                )

        write_atomically(cache, write)

    def _load(self, cache: Path) -> list[NeighbourList] | None:
        try:
            with cache.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                if str(stored["fingerprint"]) != self._fingerprint():
                    return None
                bounds = np.cumsum(stored["counts"])[:-1]
                parts = [np.split(stored[name], bounds) for name in ("senders", "receivers", "shifts")]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None
        return [NeighbourList(*edges) for edges in zip(*parts, strict=True)]


@dataclass(frozen=True)
class BatchPlan:
    """How frames are grouped: by count, and never beyond a budget of atoms and edges.

    Attributes:
        size: Most structures in a batch.
        max_atoms, max_edges: Budgets of a batch; a single structure above them is a batch of its own.
    """

    size: int
    max_atoms: int | None = None
    max_edges: int | None = None

    def split(self, dataset: Dataset, order: NDArray[np.int64]) -> list[list[int]]:
        """Group the frames in this order, greedily."""
        atoms, edges = dataset.atoms, dataset.edges
        groups: list[list[int]] = []
        current: list[int] = []
        for index in order.tolist():
            trial = [*current, index]
            full = len(trial) > self.size
            full |= self.max_atoms is not None and int(atoms[trial].sum()) > self.max_atoms
            full |= self.max_edges is not None and int(edges[trial].sum()) > self.max_edges
            if full and current:
                groups.append(current)
                trial = [index]
            current = trial
        return [*groups, current] if current else groups


def shuffled(count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The order of an epoch: a function of seed and epoch alone, so that a restart finds it again."""
    return np.random.default_rng([seed, epoch]).permutation(count)
