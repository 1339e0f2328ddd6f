"""TorchMD-NET's equivariant transformer (Thölke and De Fabritiis, 2022), from torchmd-net."""

from typing import Any

import torch
from pydantic import Field, model_validator

from cliffordstf.model.family import Family, FamilyConfig
from cliffordstf.zoo import torchmd
from cliffordstf.zoo.loops import ImageNeighbours
from cliffordstf.zoo.paper_settings import rows


class TorchMDETConfig(FamilyConfig):
    """Hyper-parameters of the equivariant transformer."""

    channels: int = Field(104, ge=2, description="Features of every atom, scalars and vectors; a multiple of heads.")
    layers: int = Field(6, ge=1, description="Attention layers.")
    heads: int = Field(8, ge=1, description="Attention heads.")
    basis: int = Field(56, ge=2, description="Exponential-normal radial basis functions.")
    vector_cutoff: bool = Field(
        False, description="Apply the cutoff to vector messages too; without it the energy jumps at the cutoff."
    )

    @model_validator(mode="after")
    def _check(self) -> "TorchMDETConfig":
        if self.channels % self.heads:
            raise ValueError(f"channels={self.channels} must be a multiple of heads={self.heads}")
        return self


def make(config: TorchMDETConfig) -> torchmd.TorchMDModel:
    """The transformer with the equivariant scalar readout that upstream pairs it with."""
    models, outputs = _load()
    dtype = torch.get_default_dtype()
    representation = models.TorchMD_ET(
        hidden_channels=config.channels,
        num_layers=config.layers,
        num_rbf=config.basis,
        num_heads=config.heads,
        cutoff_upper=config.cutoff,
        max_z=len(config.elements),
        vector_cutoff=config.vector_cutoff,
        dtype=dtype,
    )
    representation.neighbor_embedding = ImageNeighbours(representation.neighbor_embedding, source=1)
    return torchmd.TorchMDModel(config, representation, outputs.EquivariantScalar(config.channels, dtype=dtype))


def _load() -> tuple[Any, Any]:
    return torchmd.load("torchmd_et"), torchmd.load("output_modules")


FAMILY = Family(
    packages=torchmd.PACKAGES,
    load=_load,
    config=TorchMDETConfig,
    make=make,
    presets={
        "torchmd-et": {},
        **rows("torchmd-et", "md17", "qm9", cutoff=5.0),
        **rows("torchmd-et", "oc", cutoff=6.0),
    },
)
