"""What engines return, and what they take of a potential."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.data.structure import FloatArray
from cliffordstf.errors import StructureError


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


def check_finite(energy: float, forces: FloatArray, name: str) -> None:
    """Refuse a prediction that is not a number.

    Args:
        energy: eV.
        forces: eV/Å, (atoms, 3).
        name: Of the structure.

    Raises:
        StructureError: Something is NaN or infinite.
    """
    if not (np.isfinite(energy) and np.isfinite(forces).all()):
        raise StructureError(
            f"the potential gives an energy or forces that are not finite numbers for {name}; check the "
            "structure for atoms that are too close, and the model for damaged weights."
        )


class ReferenceEnergies(Protocol):
    """Energies of isolated atoms and the energy scale; see `cliffordstf.model.reference`."""

    energies: Tensor
    scale: Tensor
    constant: Tensor

    def __call__(self, atom_energies: Tensor, species: Tensor) -> Tensor:
        """Model output (atoms,) -> atomic energies in eV, float64 (atoms,)."""
        ...

    def of_structures(self, atom_energies: Tensor, structure_of_atom: Tensor, structures: int) -> Tensor:
        """Atomic energies (atoms,) -> energies of structures, eV, (structures,)."""
        ...


class Repulsive(Protocol):
    """Repulsion at short distances; see `cliffordstf.model.short_range`."""

    outer: Tensor

    def limits(self, batch: Batch, species: Tensor) -> Tensor:
        """Outer distance of every pair, Å, (pairs,)."""
        ...

    def is_near(self, batch: Batch, limits: Tensor) -> bool:
        """Whether any pair is below its outer distance."""
        ...

    def shown(self, batch: Batch, limits: Tensor) -> Batch:
        """The batch as the network is shown it."""
        ...

    def energies(self, batch: Batch, species: Tensor, limits: Tensor) -> Tensor:
        """Half of the repulsion of each pair at both of its atoms, eV, (atoms,)."""
        ...

    def gradients(self, batch: Batch, species: Tensor, limits: Tensor, of_network: Tensor) -> Tensor:
        """Gradient of the energy with respect to the vectors of pairs, eV/Å, (pairs, 3)."""
        ...


class Wrapped(Protocol):
    """The parts of a potential that engines run."""

    model: nn.Module
    elements: tuple[int, ...]
    cutoff: float
    force_mode: Literal["conservative", "direct"]
    pooling: Literal["sum", "mean"]

    @property
    def reference(self) -> ReferenceEnergies:
        """Energies of isolated atoms and the energy scale."""
        ...

    @property
    def short_range(self) -> Repulsive | None:
        """Repulsion at short distances, if there is one."""
        ...

    @property
    def species_of_number(self) -> Tensor:
        """Species index by atomic number, int64."""
        ...


@dataclass(frozen=True)
class Wanted:
    """What a call computes.

    Attributes:
        forces, stress: Beside the energy.
        train: Whether a loss on the results is differentiated with respect to the weights.
    """

    forces: bool = True
    stress: bool = False
    train: bool = False


def stress_of(strain_gradient: Tensor, batch: Batch) -> Tensor:
    """Derivatives with respect to strains, eV, (structures, 3, 3) -> stress, eV/Å³; NaN without a volume."""
    volumes = batch.volumes()[:, None, None]
    # Divide by one where there is no volume: a division by zero would turn the gradient into NaN, masked or not.
    return torch.where(volumes > 0, strain_gradient / torch.where(volumes > 0, volumes, 1.0), torch.nan)


def forces_of_pairs(batch: Batch, gradients: Tensor) -> Tensor:
    """Forces, eV/Å, (atoms, 3), from gradients with respect to the vectors of pairs, (pairs, 3)."""
    straight = batch.edges.pair_edges[:, 0]
    senders, receivers = batch.senders.index_select(0, straight), batch.receivers.index_select(0, straight)
    forces = torch.zeros_like(batch.positions)
    return forces.index_add_(0, receivers, gradients).index_add_(0, senders, gradients, alpha=-1)
