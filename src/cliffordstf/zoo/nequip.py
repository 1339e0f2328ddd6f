"""NequIP (Batzner et al., 2022), from nequip."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.model.family import Family, FamilyConfig
from cliffordstf.model.output import ModelOutput
from cliffordstf.zoo.paper_settings import rows
from cliffordstf.zoo.upstream import upstream


class NequipConfig(FamilyConfig):
    """Hyper-parameters of NequIP."""

    channels: int = Field(44, ge=1, description="Channels of every irrep.")
    lmax: int = Field(1, ge=0, le=4, description="Highest degree of features and spherical harmonics.")
    parity: bool = Field(True, description="Carry both parities of every degree.")
    layers: int = Field(4, ge=1, description="Interactions.")
    bessels: int = Field(8, ge=1, description="Bessel radial basis functions.")
    envelope_power: int = Field(6, ge=3, description="Power p of the polynomial cutoff envelope.")
    radial_width: int = Field(128, ge=1, description="Hidden width of the radial networks.")
    radial_depth: int = Field(1, ge=1, description="Hidden layers of the radial networks.")


class NequipModel(nn.Module):
    """The energy part of NequIP, without its per-type scales and shifts, which `Potential` adds."""

    def __init__(self, config: NequipConfig) -> None:
        super().__init__()
        self.config = config
        builder = _load().FullNequIPGNNModel
        irreps = [
            f"{config.channels}x{degree}{parity}"
            for degree in range(config.lmax + 1)
            for parity in ("eo" if config.parity else "eo"[degree % 2])
        ]
        # The function behind the decorator: the decorator insists on a process-wide set-up of random seeds, default
        # dtype, TorchScript, Dynamo and multiprocessing, none of which the model itself needs.
        self.network = builder.__wrapped__(
            r_max=config.cutoff,
            type_names=[f"Z{number}" for number in config.elements],
            irreps_edge_sh=config.lmax,
            type_embed_num_features=config.channels,
            feature_irreps_hidden=[" + ".join(irreps)] * (config.layers - 1) + [f"{config.channels}x0e"],
            radial_mlp_depth=[config.radial_depth] * config.layers,
            radial_mlp_width=[config.radial_width] * config.layers,
            num_bessels=config.bessels,
            polynomial_cutoff_p=config.envelope_power,
            avg_num_neighbors=config.average_neighbours,
            per_type_energy_scales=1.0,
            per_type_energy_shifts=0.0,
            do_derivatives=False,
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "NequipModel":
        """Cast the model, and tell the edge embeddings, which remember the dtype they were built in."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        dtype = next(self.parameters()).dtype
        modules: Iterable[Any] = self.modules()
        for module in modules:
            if hasattr(module, "_output_dtype"):
                module._output_dtype = dtype
        return self

    def forward(self, batch: Batch, species: Tensor) -> ModelOutput:
        """Atomic energies of a batch; species (atoms,)."""
        outputs = self.network(
            {
                "pos": batch.positions,  # only its length is read, because the edge vectors are given
                "edge_index": torch.stack([batch.receivers, batch.senders]),
                "edge_vectors": batch.vectors(),  # float64, as upstream wants them
                "atom_types": species,
                "batch": batch.structure_of_atom,
                "num_atoms": batch.atoms_per_structure(),
            }
        )
        return ModelOutput(atom_energies=outputs["atomic_energy"][:, 0])


def _load() -> Any:
    return upstream("nequip.model.nequip_models")


FAMILY = Family(
    packages=("nequip==0.19.1", "e3nn==0.6.0"),
    load=_load,
    config=NequipConfig,
    make=NequipModel,
    presets={
        "nequip-l1": {},
        **rows("nequip-l1", "md17", "qm9", cutoff=5.0),
        **rows("nequip-l1", "oc", cutoff=6.0),
    },
)
