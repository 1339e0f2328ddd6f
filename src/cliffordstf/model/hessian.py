"""Second derivatives of the energy, by differentiating the gradient once more."""

import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cliffordstf.data.batch import Batch, make_batch
from cliffordstf.data.neighbours import neighbour_list
from cliffordstf.data.structure import FloatArray, Structure, as_structure
from cliffordstf.errors import ConfigError

if TYPE_CHECKING:
    from ase import Atoms

    from cliffordstf.model.potential import Potential

MEMORY = 1e9
"""Bytes that the graph of the gradient may keep by default."""


@torch.inference_mode(False)
@torch.enable_grad()
def hessian(potential: "Potential", structure: "Structure | Atoms", memory: float = MEMORY) -> FloatArray:
    """Hessian of the energy with respect to the positions.

    The gradient is computed once for several copies of the structure, and one backward pass through it gives one row
    of the Hessian per copy. A copy of the potential computes in float64.

    Args:
        potential: With conservative forces.
        structure: Atoms; the Hessian of periodic ones is that of the Γ point of the given cell.
        memory: Bytes that the graph of the gradient may keep; it decides how many copies there are, at least one.

    Returns:
        eV/Å², (atoms, 3, atoms, 3), symmetric up to rounding.

    Raises:
        ConfigError: The forces of the potential are not derivatives of its energy.
    """
    if potential.force_mode != "conservative":
        raise ConfigError(
            "this potential predicts forces directly, so they are not derivatives of its energy and have no Hessian; "
            "use a potential with forces='conservative'."
        )
    exact = copy.deepcopy(potential).double().eval().requires_grad_(False)
    single = as_structure(structure)
    rows = 3 * len(single)
    copies = min(rows, max(1, int(memory / _graph_bytes(exact, single))))
    gradient, positions = _gradient(exact, _copies(exact, single, copies))
    found = torch.zeros(rows, rows, dtype=torch.float64, device=positions.device)
    if gradient.requires_grad:
        for start in range(0, rows, copies):
            some = min(copies, rows - start)
            keep = start + some < rows
            found[start : start + some] = _rows(gradient, positions, start, some, copies, keep)
    return found.view(len(single), 3, len(single), 3).cpu().numpy()


def _copies(potential: "Potential", structure: Structure, count: int) -> Batch:
    """A batch of equal structures; their neighbours are searched for once."""
    edges = neighbour_list(structure, potential.cutoff)
    batch = make_batch([structure] * count, potential.cutoff, [edges] * count)
    potential.check(batch)
    return batch.to(potential.species_of_number.device)


def _gradient(potential: "Potential", batch: Batch) -> tuple[Tensor, Tensor]:
    """Gradient of the energy, eV/Å, (atoms, 3), with its graph, and the positions that it depends on."""
    positions = batch.positions.clone().requires_grad_(True)
    energy = potential.bonding_energies(batch.with_geometry(positions, batch.cell)).sum()
    if potential.pooling == "mean":
        energy = energy * (batch.size / len(batch.numbers))
    # Without any edge the energy does not depend on the positions.
    if not energy.requires_grad:
        return torch.zeros_like(positions), positions
    (gradient,) = torch.autograd.grad(energy, positions, create_graph=True, materialize_grads=True)
    return gradient, positions


def _rows(gradient: Tensor, positions: Tensor, start: int, count: int, copies: int, keep: bool) -> Tensor:
    """Rows of the Hessian from `start` on, one per copy, (count, 3 · atoms).

    Args:
        gradient, positions: Of all copies, (copies · atoms, 3).
        start, count: Which rows.
        copies: How many copies there are; those beyond `count` are left out.
        keep: Whether the graph is needed again.
    """
    numbers = torch.arange(count, device=gradient.device)
    cotangents = gradient.new_zeros(copies, gradient.numel() // copies)
    cotangents[numbers, start + numbers] = 1.0
    (found,) = torch.autograd.grad(
        gradient, positions, cotangents.view_as(gradient), retain_graph=keep, materialize_grads=True
    )
    return found.view(copies, -1)[:count]


def _graph_bytes(potential: "Potential", structure: Structure) -> float:
    """Bytes that the graph of the gradient keeps for one copy of a structure, at least 1."""
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        _gradient(potential, _copies(potential, structure, 1))
    return float(max(sum(kept.values()), 1))
