"""EquiformerV2 (Liao et al., 2024), from fairchem-core."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.model.family import Family, FamilyConfig
from cliffordstf.model.output import ModelOutput
from cliffordstf.zoo.edge_frames import EdgeFrames
from cliffordstf.zoo.paper_settings import rows
from cliffordstf.zoo.upstream import lent_scatter, upstream, without_init


class EquiformerConfig(FamilyConfig):
    """Hyper-parameters of EquiformerV2."""

    channels: int = Field(ge=1, description="Channels of every degree and order; upstream's sphere channels.")
    lmax: int = Field(ge=1, le=6, description="Highest degree of the features.")
    mmax: int = Field(2, ge=0, description="Highest order of the convolutions in the frame of an edge.")
    layers: int = Field(2, ge=1, description="Transformer blocks.")
    heads: int = Field(4, ge=1, description="Attention heads.")
    alpha_channels: int = Field(16, ge=1, description="Channels per head that make the attention weights.")
    hidden_channels: int = Field(20, ge=1, description="Hidden channels of the attention.")
    value_channels: int = Field(8, ge=1, description="Channels per head that are attended to.")
    ffn_channels: int = Field(64, ge=1, description="Hidden channels of the feed-forward networks.")
    edge_channels: int = Field(128, ge=1, description="Width of the radial networks.")
    grid_resolution: int | None = Field(
        None, ge=4, description="Points of the activations' grid; null for upstream's few, which rotations feel."
    )
    attention_dropout: float = Field(0.1, ge=0, lt=1, description="Of attention weights, in training only.")
    path_dropout: float = Field(0.05, ge=0, lt=1, description="Of a structure's whole block, in training only.")
    forces: Literal["direct", "conservative"] = Field(
        "direct", description="'direct' has a force head, 'conservative' differentiates the energy."
    )

    @model_validator(mode="after")
    def _check(self) -> "EquiformerConfig":
        if self.mmax > self.lmax:
            raise ValueError(f"mmax={self.mmax} must not be larger than lmax={self.lmax}")
        return self


class EquiformerModel(nn.Module):
    """The blocks of EquiformerV2 on edges that know periodic images, with energies of atoms.

    Upstream's own forward pass finds neighbours itself, takes the frames of edges for constants, which makes gradients
    of the energy wrong, and rolls them at random, which makes every evaluation differ from the last.
    """

    def __init__(self, config: EquiformerConfig) -> None:
        super().__init__()
        self.config = config
        equiformer, wigner_3j = _load()
        self.network = equiformer.EquiformerV2Backbone(
            max_radius=config.cutoff,
            max_num_elements=len(config.elements),
            num_layers=config.layers,
            sphere_channels=config.channels,
            attn_hidden_channels=config.hidden_channels,
            num_heads=config.heads,
            attn_alpha_channels=config.alpha_channels,
            attn_value_channels=config.value_channels,
            ffn_hidden_channels=config.ffn_channels,
            lmax_list=[config.lmax],
            mmax_list=[config.mmax],
            edge_channels=config.edge_channels,
            alpha_drop=config.attention_dropout,
            drop_path_rate=config.path_dropout,
            avg_degree=config.average_neighbours,
            grid_resolution=config.grid_resolution,
        )
        # The blocks inside the heads: the heads themselves add up a structure and divide by 77.8 atoms. The one run
        # that did so too learned no energies (docs/zoo.md).
        self.energy_block = equiformer.EqV2ScalarHead(self.network).energy_block
        self.force_block = equiformer.EqV2VectorHead(self.network).force_block if config.forces == "direct" else None
        self.frames = EdgeFrames(config.lmax, wigner_3j)
        self._features = equiformer.SO3_Embedding

    def forward(self, batch: Batch, species: Tensor) -> ModelOutput:
        """Atomic energies of a batch, and forces if there is a head for them; species (atoms,)."""
        vectors, index, atoms = batch.vectors(), torch.stack([batch.senders, batch.receivers]), len(species)
        structure_of_atom = batch.structure_of_atom
        if not len(vectors):
            # Upstream cannot do without edges: one from a ghost to itself, which no atom feels, makes it run.
            vectors, index = vectors.new_ones(1, 3), index.new_full((2, 1), atoms)
            species, structure_of_atom = (torch.cat([each, each[-1:]]) for each in (species, structure_of_atom))
        energies, forces = self._evaluate(vectors, index, species, structure_of_atom)
        return ModelOutput(energies[:atoms], None if forces is None else forces[:atoms])

    def _evaluate(
        self, vectors: Tensor, index: Tensor, species: Tensor, structure_of_atom: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Vectors (edges, 3), senders and receivers (2, edges) -> energies (atoms,), forces (atoms, 3)."""
        network, dtype = self.network, self.network.sphere_embedding.weight.dtype
        edges = (species, network.distance_expansion(torch.linalg.vector_norm(vectors, dim=1).to(dtype)), index)
        with self._turned(self.frames(vectors, dtype)):
            features = self._elements(species)
            features.embedding = features.embedding + network.edge_degree_embedding(*edges, len(species)).embedding
            for block in network.blocks:
                features = block(features, *edges, batch=structure_of_atom)
            features.embedding = network.norm(features.embedding)
            energies = self.energy_block(features).embedding[:, 0, 0]
            forces = None if self.force_block is None else self.force_block(features, *edges).embedding[:, 1:4, 0]
        return energies, forces

    def _elements(self, species: Tensor) -> Any:
        """Upstream's container of features, with the embedding of each atom's element as its scalars."""
        scalars = self.network.sphere_embedding(species)
        features = self._features(
            len(species), [self.config.lmax], self.config.channels, device=scalars.device, dtype=scalars.dtype
        )
        higher = features.embedding[:, 1:]
        features.set_embedding(torch.cat([scalars[:, None], higher], dim=1))
        return features

    @contextmanager
    def _turned(self, matrices: Tensor) -> Iterator[None]:
        """Lend upstream the Wigner matrices of the edges, (edges, (lmax + 1)², (lmax + 1)²)."""
        rotation = self.network.SO3_rotation[0]
        rotation.wigner, rotation.wigner_inv = matrices, matrices.mT
        try:
            yield
        finally:  # tensors with a graph must not stay: they could not be copied
            rotation.wigner = rotation.wigner_inv = None


def _load() -> tuple[Any, Any]:
    """The module with the network, without the trainers, databases and downloads around it; e3nn's 3j symbols."""
    models = "fairchem.core.models"
    packages = without_init("fairchem.core", models, f"{models}.scn", f"{models}.equiformer_v2")
    wigner_3j = upstream("e3nn.o3").wigner_3j
    with packages, lent_scatter():
        return upstream(f"{models}.equiformer_v2.equiformer_v2"), wigner_3j


_TEN_MILLION = {"channels": 160, "lmax": 2, "layers": 6, "hidden_channels": 80, "ffn_channels": 280}
"""Parameters, by the paper's widths for its scaling check."""

FAMILY = Family(
    packages=("fairchem-core==1.10.0", "torch-geometric==2.8.1", "e3nn==0.6.0"),
    load=_load,
    config=EquiformerConfig,
    make=EquiformerModel,
    presets={
        "equiformer-l2": {"channels": 40, "lmax": 2},
        "equiformer-l3": {"channels": 24, "lmax": 3},
        "equiformer-l4": {"channels": 14, "lmax": 4},
        **rows("equiformer-l2", "md17", channels=40, lmax=2, cutoff=6.0),
        **rows("equiformer-l3", "md17", channels=24, lmax=3, cutoff=6.0),
        **rows("equiformer-l4", "md17", channels=14, lmax=4, cutoff=6.0),
        **rows("equiformer-l4", "oc", channels=18, lmax=4, cutoff=6.0),
        **rows("equiformer-l4", "qm9", channels=30, lmax=4, cutoff=6.0),
        "equiformer-l2-10m": _TEN_MILLION,
        **rows("equiformer-l2-10m", "oc", **_TEN_MILLION, cutoff=6.0),
    },
    forces="direct",
)
