"""ICTP (Zaverkin et al., 2024), irreducible Cartesian tensor potentials; implemented here, after the paper.

Equivariant message passing on symmetric traceless tensors, with products of several of them in each layer.
"""

from itertools import pairwise
from typing import cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.model.family import Family, FamilyConfig
from cliffordstf.model.output import ModelOutput
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.linear import SILU_GAIN
from cliffordstf.nn.radial import BesselBasis, polynomial_envelope
from cliffordstf.zoo.ictp_layers import ElementGroups, IctpInteraction, natural_layout
from cliffordstf.zoo.paper_settings import rows


class IctpConfig(FamilyConfig):
    """Hyper-parameters of ICTP."""

    cutoff: float = Field(6.0, gt=0, description="Radius of the neighbourhood, Å.")
    channels: int = Field(ge=1, description="Channels of every rank that atoms carry between layers.")
    product_channels: int = Field(ge=1, description="Channels of the product basis.")
    lmax: int = Field(ge=0, le=4, description="Highest rank that atoms carry between layers.")
    max_ell: int = Field(3, ge=0, le=4, description="Highest rank of edge directions and inside the product basis.")
    layers: int = Field(2, ge=1, description="Interactions.")
    correlation: int = Field(3, ge=1, le=4, description="Factors of the product basis; the body order is one more.")
    bessels: int = Field(8, ge=1, description="Bessel radial basis functions.")
    envelope_power: int = Field(5, ge=3, description="Power p of the polynomial cutoff envelope.")
    radial_widths: tuple[int, ...] = Field(
        (64, 64, 64), min_length=1, description="Hidden widths of the radial networks."
    )
    hidden: int = Field(16, ge=1, description="Hidden width of the last readout.")

    @model_validator(mode="after")
    def _check(self) -> "IctpConfig":
        if self.lmax > self.max_ell:
            raise ValueError(f"lmax={self.lmax} must not exceed max_ell={self.max_ell}")
        return self


class IctpModel(nn.Module):
    """Convolutions and product bases of irreducible Cartesian tensors, an energy read from the scalars of every layer.

    O(3)-equivariant by construction. The radial basis carries the polynomial envelope and nothing after it has a bias,
    so the energy is twice continuously differentiable when an atom crosses the cutoff.
    """

    def __init__(self, config: IctpConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(len(config.elements), config.channels)
        self.basis = BesselBasis(config.bessels, config.cutoff)
        degrees = [0, *[config.lmax] * (config.layers - 1), 0]
        self.layers = nn.ModuleList(
            IctpInteraction(
                natural_layout(before),
                natural_layout(after),
                elements=len(config.elements),
                channels=config.channels,
                product_channels=config.product_channels,
                edge_lmax=config.max_ell,
                correlation=config.correlation,
                radial_widths=(config.bessels, *config.radial_widths),
                average_neighbours=config.average_neighbours,
            )
            for before, after in pairwise(degrees)
        )
        self.readouts = nn.ParameterList(torch.randn(config.channels) for _ in range(config.layers - 1))
        self.last_hidden = nn.Parameter(torch.randn(config.channels, config.hidden))
        self.last_readout = nn.Parameter(torch.randn(config.hidden))

    def forward(self, batch: Batch, species: Tensor) -> ModelOutput:
        """Atomic energies of a batch; species (atoms,)."""
        vectors = batch.pair_vectors().to(self.embedding.weight.dtype)
        geometry = Geometry.from_vectors(vectors, batch.edges, batch.numbers.shape[0])
        envelope = polynomial_envelope(geometry.distances, self.config.cutoff, self.config.envelope_power)
        basis = self.basis(geometry.distances) * envelope[:, None]
        groups = ElementGroups.of(species)
        features = self.embedding(species)[:, None]
        scalars = []
        for layer in self.layers:
            features = cast("IctpInteraction", layer)(features, groups, basis, geometry.directions, geometry.edges)
            scalars.append(features[:, 0])
        return ModelOutput(self._energies(scalars))

    def _energies(self, scalars: list[Tensor]) -> Tensor:
        """Scalars of every layer (atoms, channels) -> energies (atoms,)."""
        *firsts, last = scalars
        scale = self.config.channels**-0.5
        activated = nn.functional.silu(last @ self.last_hidden * scale) * SILU_GAIN
        energies = activated @ self.last_readout * self.config.hidden**-0.5
        for values, readout in zip(firsts, self.readouts, strict=True):
            energies = energies + values @ readout * scale
        return energies


def _load() -> None:
    """Nothing comes from outside."""


FAMILY = Family(
    packages=(),
    load=_load,
    config=IctpConfig,
    make=IctpModel,
    presets={
        "ictp-l1": {"channels": 10, "product_channels": 10, "lmax": 1},
        "ictp-l2": {"channels": 8, "product_channels": 8, "lmax": 2},
        "ictp-l3": {"channels": 7, "product_channels": 7, "lmax": 3},
        "ictp-l1-1m": {"channels": 47, "product_channels": 47, "lmax": 1, "cutoff": 5.0},
        "ictp-l2-1m": {"channels": 38, "product_channels": 38, "lmax": 2, "cutoff": 5.0},
        "ictp-l3-1m": {"channels": 34, "product_channels": 34, "lmax": 3, "cutoff": 5.0},
        **rows("ictp-l1", "md17", "oc", channels=10, product_channels=10, lmax=1),
        **rows("ictp-l2", "md17", "oc", channels=8, product_channels=8, lmax=2),
        **rows("ictp-l3", "md17", channels=7, product_channels=7, lmax=3),
    },
)
