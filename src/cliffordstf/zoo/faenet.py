"""FAENet (Duval et al., 2023), from faenet."""

from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.model.family import Family, FamilyConfig
from cliffordstf.model.output import ModelOutput
from cliffordstf.zoo.paper_settings import rows
from cliffordstf.zoo.upstream import lent_scatter, upstream


class FaenetConfig(FamilyConfig):
    """Hyper-parameters of FAENet."""

    channels: int = Field(320, ge=16, description="Features of every atom, 14 of them given by its element.")
    filters: int = Field(128, ge=2, description="Width of messages and edges.")
    layers: int = Field(4, ge=1, description="Interactions.")
    basis: int = Field(50, ge=2, description="Gaussian radial basis functions.")
    message: Literal["updownscale_base", "updownscale", "base", "updown_local_env", "simple"] = Field(
        "updownscale_base", description="How messages are made; upstream's mp_type."
    )
    graph_norm: bool = Field(
        True, description="Normalise messages over all atoms of a batch, whatever structure they belong to."
    )
    frames: Literal["stochastic", "det", "all"] = Field(
        "stochastic",
        description="Which of the 8 frames of the principal axes are used: a random one in training and 'det' outside; "
        "the one that the axes' signs in space say; or all, averaged.",
    )
    force_channels: int = Field(128, ge=1, description="Hidden width of the force head.")
    forces: Literal["direct", "conservative"] = Field(
        "direct", description="'direct' has a force head, 'conservative' differentiates the energy."
    )


@dataclass(frozen=True)
class _Edges:
    """What upstream's forward pass takes for its data.

    Attributes:
        species: int64 (atoms,).
        index: Senders and receivers, int64 (2, edges).
        vectors: From receivers to senders in the frame of the structure, Å, (edges, 3).
        lengths: Å, (edges,).
    """

    species: Tensor
    index: Tensor
    vectors: Tensor
    lengths: Tensor


class FaenetModel(nn.Module):
    """FAENet with frames made here, differentiably, and with energies of atoms."""

    def __init__(self, config: FaenetConfig) -> None:
        super().__init__()
        self.config = config
        direct = config.forces == "direct"
        self.network = _load().FAENet(
            cutoff=config.cutoff,
            preprocess=_as_they_are,
            num_gaussians=config.basis,
            num_filters=config.filters,
            hidden_channels=config.channels,
            # Tags say surface or adsorbate, and only in Open Catalyst's data.
            tag_hidden_channels=0,
            pg_hidden_channels=0,
            num_interactions=config.layers,
            mp_type=config.message,
            graph_norm=config.graph_norm,
            regress_forces="direct" if direct else None,
            force_decoder_type="mlp",
            force_decoder_model_config={"mlp": {"hidden_channels": config.force_channels}},
        )
        self._restrict_to_elements()

    def _restrict_to_elements(self) -> None:
        """One row per known element rather than 85; properties that upstream has no values for are average, zero."""
        block, numbers = self.network.embed_block, torch.tensor(self.config.elements)
        block.emb = nn.Embedding(len(numbers), block.emb.embedding_dim)
        known = block.phys_emb.properties
        rows = known.new_zeros(max(len(known), int(numbers.max()) + 1), known.shape[1])
        rows[: len(known)] = known
        block.phys_emb.properties = rows[numbers]

    def forward(self, batch: Batch, species: Tensor) -> ModelOutput:
        """Atomic energies of a batch, and forces if there is a head for them; species (atoms,)."""
        dtype = self.network.embed_block.emb.weight.dtype
        vectors = batch.vectors()
        lengths = torch.linalg.vector_norm(vectors, dim=1).to(dtype)
        index = torch.stack([batch.senders, batch.receivers])
        outputs = []
        for frame in self._frames(batch):
            frame_of_atom = frame.index_select(0, batch.structure_of_atom)
            seen = torch.einsum("ei,eij->ej", vectors, frame_of_atom.index_select(0, batch.receivers))
            found = self.network.energy_forward(_Edges(species, index, seen.to(dtype), lengths))
            forces = self.network.forces_forward(found)
            if forces is not None:
                forces = torch.einsum("nj,nij->ni", forces, frame_of_atom.to(dtype))
            outputs.append(ModelOutput(found["energy"][:, 0], forces))
        return _mean(outputs)

    def _frames(self, batch: Batch) -> list[Tensor]:
        """Frames to evaluate the network in, each (structures, 3, 3) with axes as columns."""
        axes = principal_axes(batch)
        match self.config.frames:
            case "all":
                signs = axes.new_tensor(list(product([1.0, -1.0], repeat=3)))
                return [axes * sign for sign in signs]
            case "stochastic" if self.training:
                return [axes * (2 * torch.randint(2, (batch.size, 1, 3), device=axes.device) - 1)]
        return [axes * torch.where(axes.detach().sum(dim=1, keepdim=True) >= 0, 1.0, -1.0)]


def principal_axes(batch: Batch) -> Tensor:
    """Principal axes of the positions of each structure as columns, longest first, with any sign; (structures, 3, 3).

    Positions are those in the batch: another choice of the cell or of periodic images gives other axes. The first
    derivative with respect to positions is right (axes of one length are taken for constant), higher ones are not.
    """
    of_atom = batch.structure_of_atom
    sums = torch.zeros_like(batch.cell[:, 0]).index_add(0, of_atom, batch.positions)
    centred = batch.positions - (sums / batch.atoms_per_structure()[:, None]).index_select(0, of_atom)
    squares = centred[:, :, None] * centred[:, None, :]
    covariance = torch.zeros_like(batch.cell).index_add(0, of_atom, squares)
    values, vectors = torch.linalg.eigh(covariance.detach())
    values, vectors = values.flip(-1), vectors.flip(-1)
    # First-order perturbation theory in place of eigh's own gradient, which is infinite for a linear molecule.
    gaps = values[:, None, :] - values[:, :, None]
    separate = gaps.abs() > 1e-6 * values[:, :1, None]
    rates = torch.where(separate, 1 / torch.where(separate, gaps, 1.0), 0.0)
    change = vectors.mT @ (covariance - covariance.detach()) @ vectors
    return vectors + vectors @ (rates * change)


def _as_they_are(edges: _Edges, *_: object) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Takes the place of upstream's neighbour search; every atom counts as a structure, so that it has an energy."""
    each = torch.arange(len(edges.species), device=edges.species.device)
    return edges.species, each, edges.index, edges.vectors, edges.lengths


def _mean(outputs: list[ModelOutput]) -> ModelOutput:
    energies = torch.stack([output.atom_energies for output in outputs]).mean(dim=0)
    forces = [output.forces for output in outputs if output.forces is not None]
    return ModelOutput(energies, torch.stack(forces).mean(dim=0) if forces else None)


def _load() -> Any:
    with lent_scatter():
        return upstream("faenet.model")


FAMILY = Family(
    packages=("faenet==0.1.3", "mendeleev==0.15.0", "torch-geometric==2.8.1"),
    load=_load,
    config=FaenetConfig,
    make=FaenetModel,
    presets={"faenet": {}, **rows("faenet", "md17", "qm9", cutoff=6.0)},
    forces="direct",
)
