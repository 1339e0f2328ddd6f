"""A potential: energy, forces and stress from any energy model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from cliffordstf.data.batch import Batch, make_batch
from cliffordstf.data.structure import FloatArray, Structure, symbol
from cliffordstf.errors import ConfigError, UnknownElementError
from cliffordstf.kernels import differentiate
from cliffordstf.kernels.operator import is_traced
from cliffordstf.model.hessian import MEMORY, hessian
from cliffordstf.model.inference import PairGradients, can_infer, pair_gradients
from cliffordstf.model.reference import AtomicReference
from cliffordstf.model.short_range import ShortRange
from cliffordstf.model.training import trained_pair_gradients

if TYPE_CHECKING:
    from ase import Atoms


@dataclass(frozen=True)
class Prediction:
    """Predictions for a batch; every tensor is float64.

    Attributes:
        energy: eV, (structures,).
        atom_energies: eV, (atoms,); they add up to `energy`.
        forces: eV/Å, (atoms, 3), or None if they were not asked for.
        stress: eV/Å³, (structures, 3, 3), positive under tension as in ASE; NaN where a structure has no
            three-dimensional cell; None if it was not asked for.
        energy_std: Sample standard deviation over the members of an ensemble, eV, (structures,); None for one model.
        forces_std: The same of the forces, eV/Å, (atoms, 3).
    """

    energy: Tensor
    atom_energies: Tensor
    forces: Tensor | None = None
    stress: Tensor | None = None
    energy_std: Tensor | None = None
    forces_std: Tensor | None = None


class Potential(nn.Module):
    """Wraps an energy model: reference energies, scale, forces and stress.

    Forces are -dE/dr by automatic differentiation, or those of the model's force head. Stress is always the
    derivative of
    the energy with respect to a symmetric strain, per volume. Positions go in and results come out in float64; the
    model computes in the precision of its weights.

    Args:
        model: See `cliffordstf.model.output.EnergyModel`.
        elements: Atomic numbers the model knows, in the order of its species index.
        cutoff: Å.
        forces: `conservative` or `direct`.
        reference: Isolated-atom energies and energy scale; zeros and 1 eV by default.
        pooling: Whether a structure's value is the sum over its atoms or their mean.
        short_range: Repulsion at distances that the training data do not reach.
    """

    species_of_number: Tensor

    def __init__(
        self,
        model: nn.Module,
        elements: tuple[int, ...],
        cutoff: float,
        forces: Literal["conservative", "direct"] = "conservative",
        reference: AtomicReference | None = None,
        pooling: Literal["sum", "mean"] = "sum",
        short_range: ShortRange | None = None,
    ) -> None:
        super().__init__()
        self.short_range = short_range
        self.model = model
        self.pooling = pooling
        self.elements = elements
        self.cutoff = cutoff
        self.force_mode = forces
        self.reference = reference or AtomicReference(elements)
        lookup = torch.full((max(elements) + 1,), -1, dtype=torch.int64)
        lookup[list(elements)] = torch.arange(len(elements))
        self.register_buffer("species_of_number", lookup, persistent=False)

    def batch(self, structures: "Sequence[Structure | Atoms] | Structure | Atoms") -> Batch:
        """Make a batch with this potential's cutoff, on its device."""
        return make_batch(structures, self.cutoff).to(self.species_of_number.device)

    def predict(self, structures: "Sequence[Structure | Atoms] | Structure | Atoms", stress: bool = True) -> Prediction:
        """Energy, forces and stress of one or several structures."""
        batch = self.batch(structures)
        prediction = self(batch, stress=stress and bool((batch.volumes() > 0).any()))
        assert isinstance(prediction, Prediction)
        return prediction

    def hessian(self, structure: "Structure | Atoms", memory: float = MEMORY) -> FloatArray:
        """Hessian of the energy in float64, by analytic second derivatives; conservative forces only.

        Args:
            structure: Atoms; for periodic ones it is the Hessian of the Γ point of the given cell.
            memory: Bytes that the graph of the gradient may keep; more rows are then computed at a time.

        Returns:
            eV/Å², (atoms, 3, atoms, 3): element `[i, a, j, b]` is d²E/dr_ia dr_jb.

        Example:
            >>> import cliffordstf
            >>> from ase.build import molecule
            >>> cliffordstf.load("ethanol-gfn2").hessian(molecule("CH3CH2OH")).shape
            (9, 3, 9, 3)
        """
        return hessian(self, structure, memory)

    def forward(self, batch: Batch, forces: bool = True, stress: bool = False, train: bool = False) -> Prediction:
        """Evaluate a batch.

        Args:
            batch: Structures with edges; its neighbour lists must reach at least this potential's cutoff.
            forces, stress: What to compute beside the energy.
            train: Keep the graph so that a loss on forces and stress can be differentiated.
        """
        self.check(batch)
        species = self.species_of_number[batch.numbers]
        limits = self._limits(batch, species)
        by_gradient = forces and self.force_mode == "conservative"
        if (by_gradient or stress) and self.force_mode == "conservative":
            found = self._pair_gradients(self._shown(batch, limits), species, train)
            if found is not None:
                return self._from_pairs(found, batch, species, limits, forces, stress)
        with torch.set_grad_enabled(train or by_gradient or stress):
            strained, leaves = self._with_leaves(batch, by_gradient, stress)
            output = self.model(self._shown(strained, limits), species)
            atom_energies = self.reference(output.atom_energies, species)
            if limits is not None and self.short_range is not None:
                atom_energies = atom_energies + self.short_range.energies(strained, species, limits)
            if self.pooling == "mean":
                atom_energies = atom_energies / batch.atoms_per_structure().index_select(0, batch.structure_of_atom)
            energy = self.reference.of_structures(atom_energies, batch.structure_of_atom, batch.cell.shape[0])
            gradients = self._gradients(energy, leaves, train)
        result_forces: Tensor | None = None
        if by_gradient:
            result_forces = -gradients["positions"]
        elif forces:
            if output.forces is None:
                raise ConfigError("this model has no force head; build the potential with forces='conservative'.")
            result_forces = output.forces.double() * self.reference.scale
            if limits is not None and self.short_range is not None:
                nothing = torch.zeros_like(batch.pair_vectors())
                gradients_of_pairs = self.short_range.gradients(batch, species, limits, nothing)
                result_forces = result_forces + self._forces_of_pairs(batch, gradients_of_pairs)
        result_stress = self._stress(gradients["strain"], batch) if stress else None
        if not train:
            energy, atom_energies = energy.detach(), atom_energies.detach()
            result_forces = None if result_forces is None else result_forces.detach()
        return Prediction(energy, atom_energies, result_forces, result_stress)

    def bonding_energies(self, batch: Batch) -> Tensor:
        """Atomic energies beyond isolated atoms, eV, (atoms,), as a graph that leads to the positions of the batch."""
        species = self.species_of_number[batch.numbers]
        limits = self._limits(batch, species)
        energies: Tensor = self.model(self._shown(batch, limits), species).atom_energies.double() * self.reference.scale
        if limits is not None and self.short_range is not None:
            energies = energies + self.short_range.energies(batch, species, limits)
        return energies

    def _limits(self, batch: Batch, species: Tensor) -> Tensor | None:
        """Distances below which the repulsion acts, (pairs,); None without one, or where every pair is farther."""
        if self.short_range is None:
            return None
        limits = self.short_range.limits(batch, species)
        # A graph that is traced, or runs on a GPU, must not depend on what is in the tensors.
        if batch.positions.device.type == "cpu" and not is_traced([batch.positions]):
            return limits if self.short_range.is_near(batch, limits) else None
        return limits

    @staticmethod
    def _shown(batch: Batch, limits: Tensor | None) -> Batch:
        return batch if limits is None else ShortRange.shown(batch, limits)

    def _pair_gradients(self, batch: Batch, species: Tensor, train: bool) -> PairGradients | None:
        """Energies and their gradient without autograd, with a graph that leads to the weights alone if asked for.

        None where autograd has to do it, as for tracers.
        """
        if self.pooling == "mean" or is_traced([batch.positions]):
            return None
        if train:
            return trained_pair_gradients(self.model, batch, species)
        if not can_infer(self.model, batch.positions.device):
            return None
        return pair_gradients(self.model, batch, species)

    def _from_pairs(
        self,
        found: PairGradients,
        batch: Batch,
        species: Tensor,
        limits: Tensor | None,
        forces: bool,
        stress: bool,
    ) -> Prediction:
        """Energy, forces and stress from the gradients of the pairs."""
        with torch.set_grad_enabled(found.gradients.requires_grad):
            atom_energies = self.reference(found.atom_energies, species)
            gradients = found.gradients.double() * self.reference.scale
            if limits is not None and self.short_range is not None:
                atom_energies = atom_energies + self.short_range.energies(batch, species, limits).detach()
                gradients = self.short_range.gradients(batch, species, limits, gradients)
            energy = self.reference.of_structures(atom_energies, batch.structure_of_atom, batch.cell.shape[0])
            result_forces, result_stress = None, None
            if forces:
                result_forces = self._forces_of_pairs(batch, gradients)
            if stress:
                receivers = batch.receivers.index_select(0, batch.edges.pair_edges[:, 0])
                virials = batch.pair_vectors().detach()[:, :, None] * gradients[:, None, :]
                structures = batch.structure_of_atom.index_select(0, receivers)
                strain = torch.zeros_like(batch.cell).index_add_(0, structures, 0.5 * (virials + virials.mT))
                result_stress = self._stress(strain, batch)
            return Prediction(energy, atom_energies, result_forces, result_stress)

    @staticmethod
    def _forces_of_pairs(batch: Batch, gradients: Tensor) -> Tensor:
        """Forces, eV/Å, (atoms, 3), from gradients with respect to the vectors of pairs, (pairs, 3)."""
        straight = batch.edges.pair_edges[:, 0]
        senders, receivers = batch.senders.index_select(0, straight), batch.receivers.index_select(0, straight)
        forces = torch.zeros_like(batch.positions)
        return forces.index_add_(0, receivers, gradients).index_add_(0, senders, gradients, alpha=-1)

    def check(self, batch: Batch) -> None:
        """Refuse a batch with unknown elements or too short neighbour lists."""
        unknown = [number for number in batch.elements if number not in self.elements]
        if unknown:
            known = ", ".join(symbol(number) for number in self.elements[:20])
            known += ", …" if len(self.elements) > 20 else ""
            raise UnknownElementError(
                f"{batch.names[0] if batch.size == 1 else 'the batch'} holds "
                f"{', '.join(symbol(number) for number in unknown)}, which this potential was not built for (it knows "
                f"{known}); use or train a potential with these elements."
            )
        if batch.cutoff < self.cutoff:
            raise ConfigError(
                f"the batch has neighbours up to {batch.cutoff} Å but the potential needs {self.cutoff} Å; make the "
                "batch with potential.batch(...)."
            )

    @staticmethod
    def _with_leaves(batch: Batch, positions: bool, strain: bool) -> tuple[Batch, dict[str, Tensor]]:
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

    @staticmethod
    def _gradients(energy: Tensor, leaves: dict[str, Tensor], train: bool) -> dict[str, Tensor]:
        if not leaves:
            return {}
        # Without any edge the energy does not depend on the leaves at all: materialised zeros are then right.
        if not energy.requires_grad:
            return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
        with differentiate("geometry"):
            values = torch.autograd.grad(
                energy.sum(), list(leaves.values()), create_graph=train, allow_unused=True, materialize_grads=True
            )
        return dict(zip(leaves, values, strict=True))

    @staticmethod
    def _stress(strain_gradient: Tensor, batch: Batch) -> Tensor:
        volumes = batch.volumes()[:, None, None]
        # Divide by one where there is no volume: a division by zero would turn the gradient into NaN, masked or not.
        return torch.where(volumes > 0, strain_gradient / torch.where(volumes > 0, volumes, 1.0), torch.nan)
