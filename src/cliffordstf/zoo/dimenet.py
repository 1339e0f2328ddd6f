"""DimeNet++ (Gasteiger et al., 2020), from PyTorch Geometric."""

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.model.family import Family, FamilyConfig
from cliffordstf.model.output import ModelOutput
from cliffordstf.zoo.paper_settings import rows
from cliffordstf.zoo.upstream import upstream


class DimenetConfig(FamilyConfig):
    """Hyper-parameters of DimeNet++."""

    channels: int = Field(128, ge=1, description="Width of the messages.")
    layers: int = Field(4, ge=1, description="Interaction blocks.")
    basis: int = Field(6, ge=1, le=64, description="Radial functions.")
    spherical: int = Field(7, ge=2, description="Angular functions.")
    basis_embedding: int = Field(8, ge=1, description="Width of the embedded basis in an interaction.")
    triplet_embedding: int = Field(64, ge=1, description="Width of the messages while angles act on them.")
    output_embedding: int = Field(128, ge=1, description="Width of the output blocks.")
    envelope_exponent: int = Field(5, ge=2, description="Exponent of the cutoff envelope.")
    output_initialiser: Literal["zeros", "glorot_orthogonal"] = Field(
        "zeros", description="Last layer of the output blocks; with 'zeros' an untrained model has no energy."
    )


class DimenetModel(nn.Module):
    """The blocks of DimeNet++ on edges and triplets that know periodic images.

    Upstream's own forward pass finds neighbours without cells, and takes every way k -> j -> i with k = i for a way
    back, which in a small cell may be a step on to the next image.
    """

    def __init__(self, config: DimenetConfig) -> None:
        super().__init__()
        self.config = config
        self.network = _load().DimeNetPlusPlus(
            hidden_channels=config.channels,
            out_channels=1,
            num_blocks=config.layers,
            int_emb_size=config.triplet_embedding,
            basis_emb_size=config.basis_embedding,
            out_emb_channels=config.output_embedding,
            num_spherical=config.spherical,
            num_radial=config.basis,
            cutoff=config.cutoff,
            envelope_exponent=config.envelope_exponent,
            output_initializer=config.output_initialiser,
        )
        # One row per known element rather than 95.
        self.network.emb.emb = nn.Embedding(len(config.elements), config.channels)
        self.network.emb.reset_parameters()

    def forward(self, batch: Batch, species: Tensor) -> ModelOutput:
        """Atomic energies of a batch; the species index numbers the embedding, (atoms,)."""
        network, atoms = self.network, len(species)
        vectors = batch.vectors().to(network.emb.emb.weight.dtype)
        first, second = triplets(batch)
        one, other = vectors.index_select(0, first), vectors.index_select(0, second)
        angles = torch.atan2(torch.linalg.vector_norm(torch.linalg.cross(other, one), dim=1), (other * one).sum(1))
        lengths = torch.linalg.vector_norm(vectors, dim=1)
        radial = network.rbf(lengths)
        spherical = network.sbf(lengths, angles, first)
        messages = network.emb(species, radial, batch.receivers, batch.senders)
        energies = network.output_blocks[0](messages, radial, batch.receivers, num_nodes=atoms)
        for interaction, output in zip(network.interaction_blocks, network.output_blocks[1:], strict=True):
            messages = interaction(messages, radial, spherical, first, second)
            energies = energies + output(messages, radial, batch.receivers, num_nodes=atoms)
        return ModelOutput(atom_energies=energies[:, 0])


def triplets(batch: Batch) -> tuple[Tensor, Tensor]:
    """Pairs of edges k -> j and j -> i that are not each other's reverse.

    Returns:
        Indices of the edges k -> j and of the edges j -> i, int64 (triplets,) each.
    """
    starts = batch.edges.row_pointers
    incoming = (starts[1:] - starts[:-1]).index_select(0, batch.senders)
    second = torch.repeat_interleave(incoming)
    # Edges are sorted by receiver: those into j follow one another from starts[j] on.
    offset = torch.arange(len(second), device=second.device) - (incoming.cumsum(0) - incoming).index_select(0, second)
    first = starts.index_select(0, batch.senders.index_select(0, second)) + offset
    onward = first != batch.edges.reverse.index_select(0, second)
    return first[onward], second[onward]


def _load() -> Any:
    return upstream("torch_geometric.nn.models.dimenet")


FAMILY = Family(
    packages=("torch-geometric==2.8.1", "scipy", "sympy"),
    load=_load,
    config=DimenetConfig,
    make=DimenetModel,
    presets={"dimenet++": {}, **rows("dimenet++", "md17", "oc", "qm9", cutoff=6.0)},
)
