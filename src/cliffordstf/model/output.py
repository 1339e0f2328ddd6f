"""What an energy model takes and gives: the interface that `Potential` wraps, for our models and for any other."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from cliffordstf.data.batch import Batch


@dataclass(frozen=True)
class ModelOutput:
    """Result of an energy model.

    Attributes:
        atom_energies: (atoms,), in units of the potential's energy scale, reference energies not included.
        forces: (atoms, 3) from a direct force head in the same unit per Å, or None.
    """

    atom_energies: Tensor
    forces: Tensor | None = None


class EnergyModel(Protocol):
    """An `nn.Module` that maps a batch to atomic energies.

    It reads geometry from `batch.vectors()` or from `batch.positions`, `batch.cell` and `batch.shifts`, so that the
    potential can differentiate with respect to positions and strain.
    """

    def __call__(self, batch: Batch, species: Tensor) -> ModelOutput:
        """Args: the batch, and the index of each atom's element among the model's elements, (atoms,)."""
        ...
