"""Energies by any model, forces and stress by automatic differentiation: the oracle of the other engines."""

import torch
from torch import Tensor

from cliffordstf.data.batch import Batch
from cliffordstf.engine.prediction import Prediction, Wanted, Wrapped, forces_of_pairs, stress_of
from cliffordstf.errors import ConfigError
from cliffordstf.kernels.operator import is_traced


class AutogradEngine:
    """Runs any model on any device."""

    name = "autograd"

    def run(self, potential: Wrapped, batch: Batch, wanted: Wanted) -> Prediction:
        """Evaluate a batch."""
        species = potential.species_of_number[batch.numbers]
        near = limits(potential, batch, species)
        by_gradient = wanted.forces and potential.force_mode == "conservative"
        with torch.set_grad_enabled(wanted.train or by_gradient or wanted.stress):
            strained, leaves = with_leaves(batch, by_gradient, wanted.stress)
            output = potential.model(shown(potential, strained, near), species)
            atom_energies = potential.reference(output.atom_energies, species)
            if near is not None and potential.short_range is not None:
                atom_energies = atom_energies + potential.short_range.energies(strained, species, near)
            if potential.pooling == "mean":
                atom_energies = atom_energies * shares(batch)
            energy = potential.reference.of_structures(atom_energies, batch.structure_of_atom, batch.cell.shape[0])
            gradients = _gradients(energy, leaves, wanted.train)
        forces: Tensor | None = None
        if by_gradient:
            forces = -gradients["positions"]
        elif wanted.forces:
            forces = _direct_forces(potential, output.forces, batch, species, near)
        stress = stress_of(gradients["strain"], batch) if wanted.stress else None
        if not wanted.train:
            energy, atom_energies = energy.detach(), atom_energies.detach()
            forces = None if forces is None else forces.detach()
        return Prediction(energy, atom_energies, forces, stress)


def limits(potential: Wrapped, batch: Batch, species: Tensor) -> Tensor | None:
    """Distances below which the repulsion acts, (pairs,); None without one, or where every pair is farther."""
    if potential.short_range is None:
        return None
    found = potential.short_range.limits(batch, species)
    # A graph that is traced, or runs on a GPU, must not depend on what is in the tensors.
    if batch.positions.device.type == "cpu" and not is_traced([batch.positions]):
        return found if potential.short_range.is_near(batch, found) else None
    return found


def shown(potential: Wrapped, batch: Batch, near: Tensor | None) -> Batch:
    """The batch as the network is shown it."""
    if near is None or potential.short_range is None:
        return batch
    return potential.short_range.shown(batch, near)


def shares(batch: Batch) -> Tensor:
    """One over the number of atoms of its structure for every atom, (atoms,)."""
    counts = batch.atoms_per_structure().to(batch.positions.dtype)
    return counts.reciprocal().index_select(0, batch.structure_of_atom)


def with_leaves(batch: Batch, positions: bool, strain: bool) -> tuple[Batch, dict[str, Tensor]]:
    """The batch with positions, and a strain of each cell, as leaves of the graph."""
    leaves: dict[str, Tensor] = {}
    moved, cell = batch.positions, batch.cell
    if positions:
        moved = leaves["positions"] = moved.detach().requires_grad_(True)
    if strain:
        leaf = torch.zeros_like(cell).requires_grad_(True)
        leaves["strain"] = leaf
        deformation = torch.eye(3, dtype=cell.dtype, device=cell.device) + 0.5 * (leaf + leaf.mT)
        moved = torch.einsum("ni,nij->nj", moved, deformation.index_select(0, batch.structure_of_atom))
        cell = cell @ deformation
    return batch.with_geometry(moved, cell), leaves


def _gradients(energy: Tensor, leaves: dict[str, Tensor], train: bool) -> dict[str, Tensor]:
    if not leaves:
        return {}
    # Without any edge the energy does not depend on the leaves at all: materialised zeros are then right.
    if not energy.requires_grad:
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    values = torch.autograd.grad(
        energy.sum(), list(leaves.values()), create_graph=train, allow_unused=True, materialize_grads=True
    )
    return dict(zip(leaves, values, strict=True))


def _direct_forces(
    potential: Wrapped, found: Tensor | None, batch: Batch, species: Tensor, near: Tensor | None
) -> Tensor:
    """Forces of a head of the model, and those of the repulsion."""
    if found is None:
        raise ConfigError("this model has no force head; build the potential with forces='conservative'.")
    forces = found.double() * potential.reference.scale
    if near is not None and potential.short_range is not None:
        nothing = torch.zeros_like(batch.pair_vectors())
        forces = forces + forces_of_pairs(batch, potential.short_range.gradients(batch, species, near, nothing))
    return forces
