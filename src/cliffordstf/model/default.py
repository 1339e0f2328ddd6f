"""The default model. Wiring only: the layers are in `cliffordstf.nn`."""

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from cliffordstf.algebra.tracks import BIVECTOR, PSEUDOSCALAR, SCALAR, VECTOR, Layout, stf
from cliffordstf.data.batch import Batch
from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels import embedding, pair_geometry, take
from cliffordstf.model.config import DefaultConfig
from cliffordstf.model.output import ModelOutput
from cliffordstf.nn.interaction import DefaultInteraction
from cliffordstf.nn.radial import RadialFunctions
from cliffordstf.nn.readout import energy_network, read_out


class DefaultModel(nn.Module):
    """Multivector and symmetric-traceless tracks, coupled by every parity-conserving entry of the table.

    O(3)-equivariant by construction. Every term that depends on an edge carries the polynomial envelope, so the energy
    is twice continuously differentiable when an atom crosses the cutoff.
    """

    def __init__(self, config: DefaultConfig) -> None:
        super().__init__()
        self.config = config
        grades = (SCALAR, VECTOR, BIVECTOR, *([PSEUDOSCALAR] if config.pseudoscalar else []))
        carried = Layout((*grades, *(stf(degree) for degree in range(2, config.lmax + 1))))
        highest = config.lmax if config.node_lmax is None else config.node_lmax
        passed = Layout(tuple(track for track in carried if track.degree <= highest))
        self.embedding = nn.Embedding(len(config.elements), config.channels)
        self.radial = RadialFunctions(
            config.basis,
            config.cutoff,
            config.envelope_power,
            config.radial_width,
            config.radial_depth,
            config.radial_functions,
            config.layers,
            len(config.elements) if config.radial_elements else 0,
            config.radial_warp,
        )
        layers: list[DefaultInteraction] = []
        source = Layout((SCALAR,))
        for index in range(config.layers):
            last = index == config.layers - 1
            layers.append(
                DefaultInteraction(
                    source,
                    carried,
                    Layout((SCALAR,)) if last else passed,
                    elements=len(config.elements),
                    lmax=config.lmax,
                    channels=config.channels,
                    radial_functions=config.radial_functions,
                    average_neighbours=config.average_neighbours,
                    body_order=config.body_order,
                )
            )
            source = layers[-1].layout
        self.layers = nn.ModuleList(layers)
        self.layer_readouts = nn.ModuleList(
            energy_network(config.channels, config.hidden)
            if index == config.layers - 1
            else energy_network(config.channels)
            for index in range(config.layers)
        )

    @property
    def energy_bias(self) -> Tensor:
        """What is added to the energy of every atom, (1,)."""
        last = cast("nn.Sequential", self.layer_readouts[-1])
        return cast("nn.Linear", last[-1]).bias

    def forward(self, batch: Batch, species: Tensor) -> ModelOutput:
        """Atomic energies of a batch."""
        vectors = batch.pair_vectors().to(self.embedding.weight.dtype)
        found = self.energies(vectors, species, batch.edges.ends(species), batch.edges)
        return ModelOutput(torch.stack(found).sum(dim=0)[:, 0, 0])

    def energies(self, vectors: Tensor, species: Tensor, ends: Tensor | None, edges: EdgeIndex | None) -> list[Tensor]:
        """What each layer adds to the energies of the atoms, (atoms, 1, 1); operators and nothing else.

        Args:
            vectors: Of the straight edges, Å, (pairs, 3).
            species: (atoms,).
            ends: Species of both atoms of each pair, (pairs, 2); symbols need none.
            edges: The edges; symbols need none.
        """
        distances, directions = pair_geometry(vectors)
        features = embedding(self.embedding.weight, species)
        radial = self.radial(distances, ends)
        found = []
        layers = zip(self.layers, self.layer_readouts, radial, strict=True)
        for layer, readout, functions in cast("Iterable[tuple[DefaultInteraction, nn.Sequential, Tensor]]", layers):
            features = layer(features, species, functions, directions, edges)
            scalars = layer.layout.slice(SCALAR)
            found.append(read_out(readout, take(features, scalars.start, 1)))
        return found
