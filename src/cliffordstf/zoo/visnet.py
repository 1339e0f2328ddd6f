"""ViSNet (Wang et al., 2024), from PyTorch Geometric."""

from typing import Any

from pydantic import Field, model_validator
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.model.family import Family, FamilyConfig
from cliffordstf.model.output import ModelOutput
from cliffordstf.zoo.loops import EdgesAndLoops, ImageNeighbours
from cliffordstf.zoo.paper_settings import rows
from cliffordstf.zoo.upstream import upstream


class VisnetConfig(FamilyConfig):
    """Hyper-parameters of ViSNet."""

    channels: int = Field(96, ge=2, description="Features of every atom; a multiple of the heads.")
    lmax: int = Field(1, ge=1, le=2, description="Highest degree of the spherical harmonics.")
    layers: int = Field(6, ge=1, description="Message-passing layers.")
    heads: int = Field(8, ge=1, description="Attention heads.")
    basis: int = Field(32, ge=2, description="Exponential-normal radial basis functions.")
    vertex: bool = Field(False, description="Use vertex geometric features.")

    @model_validator(mode="after")
    def _check(self) -> "VisnetConfig":
        if self.channels % self.heads:
            raise ValueError(f"channels={self.channels} must be a multiple of heads={self.heads}")
        return self


class VisnetModel(nn.Module):
    """ViSNet's representation and readout, without its sum over atoms and reference energies."""

    def __init__(self, config: VisnetConfig) -> None:
        super().__init__()
        self.config = config
        visnet = _load()
        self.representation = visnet.ViSNetBlock(
            lmax=config.lmax,
            num_heads=config.heads,
            num_layers=config.layers,
            hidden_channels=config.channels,
            num_rbf=config.basis,
            max_z=len(config.elements),
            cutoff=config.cutoff,
            vertex=config.vertex,
        )
        self.readout = visnet.EquivariantScalar(hidden_channels=config.channels)
        self.representation.distance = EdgesAndLoops(self.readout)
        self.representation.neighbor_embedding = ImageNeighbours(self.representation.neighbor_embedding, source=0)

    def forward(self, batch: Batch, species: Tensor) -> ModelOutput:
        """Atomic energies of a batch; the species index numbers the embedding, (atoms,)."""
        scalars, vectors = self.representation(species, batch, batch.structure_of_atom)
        return ModelOutput(atom_energies=self.readout.pre_reduce(scalars, vectors)[:, 0])


def _load() -> Any:
    return upstream("torch_geometric.nn.models.visnet")


FAMILY = Family(
    packages=("torch-geometric==2.8.1",),
    load=_load,
    config=VisnetConfig,
    make=VisnetModel,
    presets={"visnet": {}, **rows("visnet", "md17", "qm9", cutoff=5.0)},
)
