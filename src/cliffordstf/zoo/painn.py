"""PaiNN (Schütt et al., 2021), from SchNetPack."""

from pydantic import Field
from torch import nn

from cliffordstf.model.family import Family, FamilyConfig
from cliffordstf.zoo import schnetpack
from cliffordstf.zoo.paper_settings import rows


class PainnConfig(FamilyConfig):
    """Hyper-parameters of PaiNN."""

    channels: int = Field(144, ge=2, description="Features of every atom, scalars and vectors alike.")
    layers: int = Field(4, ge=1, description="Interactions.")
    basis: int = Field(64, ge=2, description="Gaussian radial basis functions between 0 and the cutoff.")


class PainnModel(schnetpack.AtomwiseModel):
    """PaiNN with an atomwise readout."""

    config: PainnConfig

    def make_representation(self) -> nn.Module:
        """The part that SchNetPack calls a representation."""
        spk, config = schnetpack.load(), self.config
        representation: nn.Module = spk.representation.PaiNN(
            n_atom_basis=config.channels,
            n_interactions=config.layers,
            radial_basis=spk.nn.GaussianRBF(n_rbf=config.basis, cutoff=config.cutoff),
            cutoff_fn=spk.nn.CosineCutoff(config.cutoff),
            nuclear_embedding=nn.Embedding(len(config.elements), config.channels),
        )
        return representation


FAMILY = Family(
    packages=schnetpack.PACKAGES,
    load=schnetpack.load,
    config=PainnConfig,
    make=PainnModel,
    presets={"painn": {}, **rows("painn", "md17", "oc", "qm9", cutoff=6.0)},
)
