"""What the adapters of PaiNN and SchNet share: importing SchNetPack, and its readout."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import dataloader

from cliffordstf.data.batch import Batch
from cliffordstf.model.family import FamilyConfig
from cliffordstf.model.output import ModelOutput
from cliffordstf.zoo.upstream import contained, upstream

PACKAGES = ("schnetpack==2.1.1",)


def load() -> Any:
    """The package `schnetpack`.

    Its data loader imports a type variable that torch has renamed since; nothing but annotations use it, so it is lent
    for the time of the import.
    """
    lend = not hasattr(dataloader, "T_co")
    if lend:
        dataloader.T_co = Any  # type: ignore[attr-defined]
    try:
        return upstream("schnetpack")
    finally:
        if lend:
            del dataloader.T_co  # type: ignore[attr-defined]


class AtomwiseModel(nn.Module, ABC):
    """A SchNetPack representation and a two-layer network on its scalars.

    The embedding has one row per known element rather than upstream's hundred, most of which would count as parameters
    and never be used.
    """

    def __init__(self, config: FamilyConfig) -> None:
        super().__init__()
        self.config = config
        # SchNetPack makes float32 constants whatever the default dtype, and fails where it mixes the two.
        with contained(torch.float32):
            self.representation = self.make_representation()
            self.readout = load().atomistic.Atomwise(
                n_in=self.representation.n_atom_basis,
                n_out=1,
                n_layers=2,
                aggregation_mode=None,
                per_atom_output_key="energy",
            )

    @abstractmethod
    def make_representation(self) -> nn.Module:
        """A module that adds `scalar_representation`, (atoms, channels), to SchNetPack's dictionary."""

    def forward(self, batch: Batch, species: Tensor) -> ModelOutput:
        """Atomic energies of a batch; species (atoms,)."""
        dtype = next(self.readout.parameters()).dtype
        inputs = {
            "_atomic_numbers": species,
            "_Rij": batch.vectors().to(dtype),
            "_idx_i": batch.receivers,
            "_idx_j": batch.senders,
        }
        outputs = self.readout(self.representation(inputs))
        return ModelOutput(atom_energies=outputs["energy"][:, 0])
