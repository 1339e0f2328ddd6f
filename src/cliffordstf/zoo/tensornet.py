"""TensorNet (Simeon and De Fabritiis, 2023), from torchmd-net."""

from typing import Any

import torch
from pydantic import Field

from cliffordstf.model.family import Family, FamilyConfig
from cliffordstf.zoo import torchmd


class TensorNetConfig(FamilyConfig):
    """Hyper-parameters of TensorNet."""

    channels: int = Field(148, ge=2, description="Channels of the 3 x 3 tensors.")
    layers: int = Field(2, ge=0, description="Interactions.")
    basis: int = Field(32, ge=2, description="Exponential-normal radial basis functions.")


def make(config: TensorNetConfig) -> torchmd.TorchMDModel:
    """TensorNet with the scalar readout that upstream pairs it with."""
    models, outputs = _load()
    dtype = torch.get_default_dtype()
    representation = models.TensorNet(
        hidden_channels=config.channels,
        num_layers=config.layers,
        num_rbf=config.basis,
        cutoff_upper=config.cutoff,
        max_z=len(config.elements),
        static_shapes=False,
        dtype=dtype,
    )
    return torchmd.TorchMDModel(config, representation, outputs.Scalar(config.channels, dtype=dtype))


def _load() -> tuple[Any, Any]:
    return torchmd.load("tensornet"), torchmd.load("output_modules")


FAMILY = Family(
    packages=torchmd.PACKAGES,
    load=_load,
    config=TensorNetConfig,
    make=make,
    presets={"tensornet": {}},
)
