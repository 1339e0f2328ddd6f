"""Models on the C++ runtime: one call for energies, forces and virials, and one for each half of a training step."""

import operator
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.engine.autograd import limits, shares, shown
from cliffordstf.engine.prediction import Prediction, Wanted, Wrapped, forces_of_pairs, stress_of
from cliffordstf.engine.schedule import Reference, make_schedule, to_bytes
from cliffordstf.engine.training import Trainer
from cliffordstf.host.allocator import free_memory
from cliffordstf.kernels.native.runtime import Evaluation, NativeModel, NativeWorkspace

KEEP = 4e9
"""Bytes that may be kept between the way forward and back, at most half of what is free; beyond that values are made
again on the way back, for a fifth more time."""

LARGE = 512
"""Atoms from which on it matters how much memory is free."""


class NativeEngine:
    """Runs the schedule of a model in C++.

    The runtime has a copy of the weights, padded to whole vectors. It is made again when a weight has changed: a change
    in place counts up the version of a tensor.
    """

    name = "native"

    def __init__(self) -> None:
        self._state: _State | None = None
        self._trainer: Trainer | None = None
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: object) -> "NativeEngine":
        return NativeEngine()

    def __reduce__(self) -> tuple[type["NativeEngine"], tuple[()]]:
        return NativeEngine, ()

    def run(self, potential: Wrapped, batch: Batch, wanted: Wanted) -> Prediction:
        """Evaluate a batch."""
        return self._train(potential, batch, wanted) if wanted.train else self._evaluate(potential, batch, wanted)

    def release(self) -> None:
        """Give back memory; the next call takes it again."""
        self._state = self._trainer = None

    def workspace(self, potential: Wrapped) -> NativeWorkspace:
        """The calling thread's workspace for the weights as they are."""
        state = self._state
        if state is None or not state.watch.is_unchanged():
            with self._lock:
                state = self._state = _State(potential)
        return state.workspace()

    def profile(self, on: bool) -> dict[str, float]:
        """Seconds by operator since the last call, of this thread and of training; measured from now on, or not."""
        works = [] if self._state is None else [self._state.workspace()]
        works += [] if self._trainer is None else [self._trainer.work]
        found: dict[str, float] = {}
        for work in works:
            for name, seconds in zip(work.model.operator_names, work.profile(on).sum(axis=1), strict=True):
                found[name] = found.get(name, 0.0) + float(seconds)
        return found

    def _evaluate(self, potential: Wrapped, batch: Batch, wanted: Wanted) -> Prediction:
        work = self.workspace(potential)
        work.set_edges(batch.edges, batch.numbers, batch.size, batch.structure_of_atom)
        if len(batch.numbers) > LARGE:
            work.set_memory(min(KEEP, 0.5 * free_memory()))
        positions, cell = batch.positions.detach().contiguous(), batch.cell.detach().contiguous()
        energy, atom_energies = cell.new_empty(batch.size), cell.new_empty(len(batch.numbers))
        call = Evaluation(positions=positions.data_ptr(), energies=energy.data_ptr())
        call.atom_energies = atom_energies.data_ptr()
        if batch.periodic:
            call.cells, call.shifts = cell.data_ptr(), batch.shifts.data_ptr()
        forces = torch.empty_like(positions) if wanted.forces else None
        strain = torch.empty_like(cell) if wanted.stress else None
        call.forces = None if forces is None else forces.data_ptr()
        call.virials = None if strain is None else strain.data_ptr()
        work.evaluate(call)
        return Prediction(energy, atom_energies, forces, None if strain is None else stress_of(strain, batch))

    def _train(self, potential: Wrapped, batch: Batch, wanted: Wanted) -> Prediction:
        species = potential.species_of_number[batch.numbers]
        near = limits(potential, batch, species)
        if self._trainer is None or not self._trainer.fits(potential.model):
            self._trainer = None
            schedule = make_schedule(potential.model)
            self._trainer = Trainer(potential.model, schedule, to_bytes(schedule, reference_of(potential)))
        slopes = wanted.forces or wanted.stress
        atom_energies, gradients = self._trainer.evaluate(shown(potential, batch, near), slopes)
        atom_energies = potential.reference(atom_energies, species)
        if near is not None and potential.short_range is not None:
            atom_energies = atom_energies + potential.short_range.energies(batch, species, near).detach()
        if potential.pooling == "mean":
            atom_energies = atom_energies * shares(batch)
        energy = potential.reference.of_structures(atom_energies, batch.structure_of_atom, batch.cell.shape[0])
        if gradients is None:
            return Prediction(energy, atom_energies)
        gradients = _of_vectors(potential, batch, species, near, gradients)
        forces = forces_of_pairs(batch, gradients) if wanted.forces else None
        return Prediction(energy, atom_energies, forces, _stress(batch, gradients) if wanted.stress else None)


def _of_vectors(potential: Wrapped, batch: Batch, species: Tensor, near: Tensor | None, gradients: Tensor) -> Tensor:
    """Gradients of the network with respect to what it was shown -> those of the energy, eV/Å, (pairs, 3)."""
    found = gradients.double() * potential.reference.scale
    if potential.pooling == "mean":
        found = found * shares(batch).index_select(0, _receivers(batch))[:, None]
    if near is not None and potential.short_range is not None:
        found = potential.short_range.gradients(batch, species, near, found)
    return found


def reference_of(potential: Wrapped) -> Reference:
    """The numbers of a potential around its network."""
    short_range = potential.short_range
    return Reference(
        elements=potential.elements,
        cutoff=potential.cutoff,
        energies=potential.reference.energies.cpu().numpy().astype(np.float64),
        scale=float(potential.reference.scale),
        constant=float(potential.reference.constant),
        pooling=potential.pooling,
        repulsion=None if short_range is None else short_range.outer.cpu().numpy(),
    )


class _State:
    """The runtime's model of some weights, with a workspace for every thread."""

    def __init__(self, potential: Wrapped) -> None:
        self.watch = Watch(potential.model, potential.reference)  # type: ignore[arg-type]
        schedule = make_schedule(potential.model)
        dtype = next(iter(schedule.weights.values())).dtype
        self._model = NativeModel(to_bytes(schedule, reference_of(potential)), dtype)
        self._local = threading.local()

    def workspace(self) -> NativeWorkspace:
        found: NativeWorkspace | None = getattr(self._local, "workspace", None)
        if found is None:
            found = self._local.workspace = NativeWorkspace(self._model)
        return found


class Watch:
    """Notices whether a tensor or a part of some modules has been changed or replaced.

    Writing through `.data` does not count up a version: use `torch.no_grad()`.
    """

    def __init__(self, *modules: nn.Module) -> None:
        every = [module for root in modules for module in root.modules()]
        parts: list[tuple[dict[str, Any], str, Any]] = [
            (module._modules, name, part) for module in every for name, part in module._modules.items()
        ]
        tensors = list(_tensors(every))
        self._owners, self._names, self._held = zip(*parts, *tensors, strict=True)
        self._tensors = [tensor for _, _, tensor in tensors]
        # Tensors of inference mode have no version, and cannot be changed outside of it.
        self._counted = [tensor for tensor in self._tensors if not tensor.is_inference()]
        self._versions, self._addresses = self._state()

    def is_unchanged(self) -> bool:
        """Whether all is as it was."""
        is_held = map(operator.is_, map(dict.get, self._owners, self._names), self._held)
        return all(is_held) and self._state() == (self._versions, self._addresses)

    def _state(self) -> tuple[list[int], list[int]]:
        return [tensor._version for tensor in self._counted], [tensor.data_ptr() for tensor in self._tensors]


def _tensors(modules: list[nn.Module]) -> Iterator[tuple[dict[str, Any], str, Tensor]]:
    for module in modules:
        for owner in (module._parameters, module._buffers):
            yield from ((owner, name, tensor) for name, tensor in owner.items() if tensor is not None)


def _receivers(batch: Batch) -> Tensor:
    return batch.receivers.index_select(0, batch.edges.pair_edges[:, 0])


def _stress(batch: Batch, gradients: Tensor) -> Tensor:
    virials = batch.pair_vectors().detach()[:, :, None] * gradients[:, None, :]
    structures = batch.structure_of_atom.index_select(0, _receivers(batch))
    strain = torch.zeros_like(batch.cell).index_add_(0, structures, 0.5 * (virials + virials.mT))
    return stress_of(strain, batch)
