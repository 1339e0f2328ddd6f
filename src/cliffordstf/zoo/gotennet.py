"""GotenNet (Aykent and Xia, 2025), from gotennet."""

from typing import Any

from pydantic import Field, model_validator
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.model.family import Family, FamilyConfig
from cliffordstf.model.output import ModelOutput
from cliffordstf.zoo.loops import EdgesAndLoops, ImageNeighbours
from cliffordstf.zoo.paper_settings import rows
from cliffordstf.zoo.upstream import lent, upstream


class GotennetConfig(FamilyConfig):
    """Hyper-parameters of GotenNet."""

    channels: int = Field(96, ge=2, description="Features of every atom and degree; a multiple of the heads.")
    lmax: int = Field(2, ge=1, le=2, description="Highest degree of the steerable features.")
    layers: int = Field(5, ge=1, description="Interactions.")
    heads: int = Field(8, ge=1, description="Attention heads.")
    basis: int = Field(32, ge=2, description="Exponential-normal radial basis functions.")

    @model_validator(mode="after")
    def _check(self) -> "GotennetConfig":
        if self.channels % self.heads:
            raise ValueError(f"channels={self.channels} must be a multiple of heads={self.heads}")
        return self


class GotennetModel(nn.Module):
    """GotenNet's representation and a two-layer network on its scalars."""

    def __init__(self, config: GotennetConfig) -> None:
        super().__init__()
        self.config = config
        gotennet = _load()
        self.representation = gotennet.GotenNet(
            n_atom_basis=config.channels,
            n_interactions=config.layers,
            n_rbf=config.basis,
            cutoff_fn=gotennet.CosineCutoff(config.cutoff),
            max_z=len(config.elements) + 1,  # upstream keeps row 0 for padding
            num_heads=config.heads,
            lmax=config.lmax,
        )
        self.readout = nn.Sequential(
            nn.Linear(config.channels, config.channels // 2), nn.SiLU(), nn.Linear(config.channels // 2, 1)
        )
        self.edges = EdgesAndLoops(self.readout)
        self.representation.node_init = ImageNeighbours(self.representation.node_init, source=0)

    def forward(self, batch: Batch, species: Tensor) -> ModelOutput:
        """Atomic energies of a batch; species (atoms,)."""
        scalars, _ = self.representation(species + 1, *self.edges(batch))
        return ModelOutput(atom_energies=self.readout(scalars)[:, 0])


def _load() -> Any:
    """The module with the network; torch-cluster, which only its unused neighbour search needs, is stood in for."""
    upstream("torch_geometric.nn")  # looks for torch-cluster itself, and must not find the stand-in
    with lent("torch_cluster", radius_graph=None):
        return upstream("gotennet.models.representation.gotennet")


FAMILY = Family(
    packages=("gotennet==1.1.2", "torch-geometric==2.8.1"),
    load=_load,
    config=GotennetConfig,
    make=GotennetModel,
    presets={"gotennet": {}, **rows("gotennet", "md17", "oc", "qm9", cutoff=6.0)},
)
