"""SchNet (Schütt et al., 2017), from SchNetPack."""

from pydantic import Field
from torch import nn

from cliffordstf.model.family import Family, FamilyConfig
from cliffordstf.zoo import schnetpack
from cliffordstf.zoo.paper_settings import rows


class SchnetConfig(FamilyConfig):
    """Hyper-parameters of SchNet."""

    channels: int = Field(192, ge=2, description="Features of every atom.")
    filters: int = Field(192, ge=1, description="Width of the continuous filters.")
    layers: int = Field(6, ge=1, description="Interactions.")
    basis: int = Field(50, ge=2, description="Gaussian radial basis functions between 0 and the cutoff.")


class SchnetModel(schnetpack.AtomwiseModel):
    """SchNet with an atomwise readout."""

    config: SchnetConfig

    def make_representation(self) -> nn.Module:
        """The part that SchNetPack calls a representation."""
        spk, config = schnetpack.load(), self.config
        representation: nn.Module = spk.representation.SchNet(
            n_atom_basis=config.channels,
            n_interactions=config.layers,
            n_filters=config.filters,
            radial_basis=spk.nn.GaussianRBF(n_rbf=config.basis, cutoff=config.cutoff),
            cutoff_fn=spk.nn.CosineCutoff(config.cutoff),
            nuclear_embedding=nn.Embedding(len(config.elements), config.channels),
        )
        return representation


FAMILY = Family(
    packages=schnetpack.PACKAGES,
    load=schnetpack.load,
    config=SchnetConfig,
    make=SchnetModel,
    presets={"schnet": {}, **rows("schnet", "md17", "oc", "qm9", cutoff=6.0)},
)
