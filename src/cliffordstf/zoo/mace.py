"""MACE (Batatia et al., 2022), from mace-torch."""

from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.model.family import Family, FamilyConfig
from cliffordstf.model.output import ModelOutput
from cliffordstf.zoo.paper_settings import rows
from cliffordstf.zoo.upstream import upstream


class MaceConfig(FamilyConfig):
    """Hyper-parameters of MACE."""

    channels: int = Field(ge=1, description="Channels of every irrep of a message.")
    lmax: int = Field(ge=0, le=3, description="Highest degree L of the messages that atoms carry between layers.")
    max_ell: int = Field(ge=0, le=4, description="Highest degree of the spherical harmonics of edge directions.")
    layers: int = Field(2, ge=1, description="Interactions.")
    correlation: int = Field(3, ge=1, le=4, description="Factors of the product basis; the body order is one more.")
    bessels: int = Field(8, ge=1, description="Bessel radial basis functions.")
    envelope_power: int = Field(5, ge=3, description="Power p of the polynomial cutoff envelope.")
    radial_widths: tuple[int, ...] = Field((64, 64, 64), description="Hidden widths of the radial networks.")
    hidden: int = Field(16, ge=1, description="Hidden width of the last readout.")


class MaceModel(nn.Module):
    """`ScaleShiftMACE` without reference energies and scale, which `Potential` adds."""

    def __init__(self, config: MaceConfig) -> None:
        super().__init__()
        self.config = config
        modules, irreps = _load()
        hidden = " + ".join(f"{config.channels}x{degree}{'eo'[degree % 2]}" for degree in range(config.lmax + 1))
        self.network = modules.ScaleShiftMACE(
            r_max=config.cutoff,
            num_bessel=config.bessels,
            num_polynomial_cutoff=config.envelope_power,
            max_ell=config.max_ell,
            # The first block without a self-connection: a free atom then has no energy beside its reference.
            interaction_cls_first=modules.RealAgnosticInteractionBlock,
            interaction_cls=modules.RealAgnosticResidualInteractionBlock,
            num_interactions=config.layers,
            num_elements=len(config.elements),
            hidden_irreps=irreps(hidden),
            MLP_irreps=irreps(f"{config.hidden}x0e"),
            atomic_energies=torch.zeros(len(config.elements)).numpy(),
            avg_num_neighbors=config.average_neighbours,
            atomic_numbers=list(config.elements),
            correlation=config.correlation,
            gate=nn.functional.silu,
            radial_MLP=list(config.radial_widths),
            atomic_inter_scale=1.0,
            atomic_inter_shift=0.0,
        )

    def forward(self, batch: Batch, species: Tensor) -> ModelOutput:
        """Atomic energies of a batch; species (atoms,)."""
        dtype = self.network.r_max.dtype
        origin = torch.zeros(len(species), 3, dtype=dtype, device=species.device)
        outputs = self.network(
            {
                # MACE forms r_receiver - r_sender + shift. All atoms at the origin and the whole vector as the shift
                # give it vectors that were subtracted in float64, periodic images included.
                "positions": origin,
                "shifts": -batch.vectors().to(dtype),
                "edge_index": torch.stack([batch.senders, batch.receivers]),
                "node_attrs": nn.functional.one_hot(species, len(self.config.elements)).to(dtype),
                "batch": batch.structure_of_atom,
                "ptr": batch.structure_of_atom.new_empty(batch.size + 1),  # only its length is read
                "cell": origin,
            },
            training=self.training,
            compute_force=False,
        )
        return ModelOutput(atom_energies=outputs["node_energy"])


def _load() -> tuple[Any, Any]:
    return upstream("mace.modules"), upstream("e3nn.o3").Irreps


FAMILY = Family(
    packages=("mace-torch==0.3.16", "e3nn==0.6.0"),
    load=_load,
    config=MaceConfig,
    make=MaceModel,
    presets={
        "mace": {"channels": 128, "lmax": 1, "max_ell": 3},
        "mace-l1": {"channels": 192, "lmax": 1, "max_ell": 1},
        "mace-l2": {"channels": 144, "lmax": 2, "max_ell": 2},
        "mace-l3": {"channels": 108, "lmax": 3, "max_ell": 3},
        **rows("mace-l1", "md17", "oc", channels=62, lmax=1, max_ell=1, cutoff=6.0),
        **rows("mace-l2", "md17", "oc", channels=49, lmax=2, max_ell=2, cutoff=6.0),
        **rows("mace-l3", "md17", channels=28, lmax=3, max_ell=3, cutoff=6.0),
        "mace-l2-10m": {"channels": 496, "lmax": 2, "max_ell": 2},
        **rows("mace-l2-10m", "oc", channels=190, lmax=2, max_ell=2, cutoff=6.0),
    },
)
