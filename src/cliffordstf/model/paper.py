"""CliffordSTF as the paper describes it. Wiring only: the layers are in `cliffordstf.nn`."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from cliffordstf.algebra.tracks import BIVECTOR, GRADES, SCALAR, STF2, VECTOR, Layout, Track, stf
from cliffordstf.data.batch import Batch
from cliffordstf.model.config import PaperConfig
from cliffordstf.model.output import ModelOutput
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.interaction import EdgeInputs, PaperInteraction
from cliffordstf.nn.linear import whole_vectors, widen
from cliffordstf.nn.message import DualTrackMessage, EdgeEmbedding, message_grades
from cliffordstf.nn.radial import GaussianBasis, cosine_envelope
from cliffordstf.nn.readout import DirectForces, InvariantReadout, energy_network
from cliffordstf.nn.routing import TrackRouter, environment_invariants


class PaperModel(nn.Module):
    """The paper's model, all its variants.

    Which tracks a layer holds follows from what can be non-zero there (scalars first, then what couplings reach, grades
    growing by one a layer) and from what anything downstream reads, so that no weight is without effect. Features start
    without noise, the radial basis spans the cutoff everywhere, and no neighbour is dropped; the softmax attention and
    the force head have no envelope, as in the paper, so energy and forces jump when an atom crosses the cutoff.
    """

    def __init__(self, config: PaperConfig) -> None:
        super().__init__()
        self.config = config
        grades = tuple(track for track in GRADES if (track.grade or 0) <= config.max_grade)
        tensors = tuple(stf(degree) for degree in config.stf_degrees)
        self.stf_at_output = config.stf_at == "output" and bool(tensors)
        in_messages = () if self.stf_at_output else tensors
        self.embedding = nn.Embedding(len(config.elements), config.channels)
        self.radial_basis = GaussianBasis(config.basis, config.cutoff)
        self.edge_embedding = EdgeEmbedding(config.basis, config.channels, config.edge_stf2)
        layers = self._make_layers(config, Layout((*grades, *in_messages)), in_messages)
        self.layers = nn.ModuleList(layers)
        layout = layers[-1].layout
        if self.stf_at_output:
            self.output_message: DualTrackMessage | None = self._message(config, layout, Layout((STF2,)))
            layout = Layout((*layout, STF2))
        else:
            self.output_message = None
        between = Layout(in_messages)
        routed = config.routing != "none" and bool(in_messages) and config.layers > 1
        self.router = TrackRouter(between, config.channels, len(config.elements), config.routing) if routed else None
        self.layer_readouts = nn.ModuleList(
            energy_network(config.channels, config.hidden) for _ in range(config.layers)
        )
        self.readout = InvariantReadout(layout, config.channels, config.hidden, config.gp_readout)
        self.force_head = (
            DirectForces(layout, config.channels, config.hidden, config.hodge_forces)
            if config.forces == "direct"
            else None
        )

    def _make_layers(self, config: PaperConfig, carried: Layout, tensors: tuple[Track, ...]) -> list[PaperInteraction]:
        layers: list[PaperInteraction] = []
        source = Layout((SCALAR,))
        for index in range(config.layers):
            grown = {*message_grades(source, config.max_grade), *(t for t in source if t.grade is not None)}
            allowed = Layout((*grown, *tensors))
            last = index == config.layers - 1
            wanted = Layout(tuple(t for t in allowed if not last or t in self._read(config, tensors)))
            layers.append(
                PaperInteraction(
                    source,
                    carried,
                    allowed,
                    wanted,
                    channels=config.channels,
                    basis=config.basis,
                    heads=config.heads,
                    body_order=config.body_order,
                    edge_stf2=config.edge_stf2 and not self.stf_at_output,
                    cross=config.cross_track,
                )
            )
            source = layers[-1].layout
        return layers

    def _read(self, config: PaperConfig, tensors: tuple[Track, ...]) -> set[Track]:
        """Tracks of the last layer that a readout looks at."""
        read: set[Track] = {SCALAR, *tensors}
        if config.gp_readout:
            read |= set(GRADES)
        if config.forces == "direct" or self.stf_at_output:
            read.add(VECTOR)
        if config.forces == "direct" and config.hodge_forces:
            read.add(BIVECTOR)
        return read

    @staticmethod
    def _message(config: PaperConfig, source: Layout, target: Layout) -> DualTrackMessage:
        return DualTrackMessage(
            source, target, config.channels, config.basis, config.heads, config.edge_stf2, cross=False
        )

    @property
    def energy_bias(self) -> Tensor:
        """What is added to the energy of every atom, (1,)."""
        return cast("nn.Linear", self.readout.network[-1]).bias

    def forward(self, batch: Batch, species: Tensor) -> ModelOutput:
        """Atomic energies and, with a force head, forces of a batch."""
        dtype = self.embedding.weight.dtype
        vectors = batch.vectors().to(dtype)
        geometry = Geometry.from_vectors(vectors, batch.edges, batch.numbers.shape[0])
        distances = geometry.pair_distances()
        basis = self.radial_basis(distances)
        envelope = cosine_envelope(distances, self.config.cutoff)
        edges = EdgeInputs(
            geometry=geometry,
            directions=geometry.direction_tensors(2),
            basis=basis,
            envelope=envelope,
            hidden=self.edge_embedding(basis, envelope),
        )
        features, energies = self._layers(species, edges)
        if self.output_message is not None:
            tensors = self.output_message(
                features, edges.directions, edges.basis, edges.hidden, edges.envelope, geometry
            )
            features = torch.cat([features, tensors], dim=1)
        features = features[:, :, : self.config.channels]
        energies = energies + self.readout(features)
        forces = None if self.force_head is None else self.force_head(features, edges.directions, geometry)
        return ModelOutput(energies, forces)

    def _layers(self, species: Tensor, edges: EdgeInputs) -> tuple[Tensor, Tensor]:
        """Features after the last layer and the sum of the per-layer readouts.

        Between layers features are as wide as kernels take them, so that these need not copy; the channels too many
        are zero.
        """
        channels = self.config.channels
        table = widen(self.embedding.weight, len(self.config.elements), whole_vectors(channels))
        features = table.index_select(0, species)[:, None]
        energies = features.new_zeros(species.shape[0])
        invariants = environment_invariants(edges.geometry) if self.router is not None else None
        layers = cast("Sequence[PaperInteraction]", self.layers)
        for index, (layer, readout) in enumerate(zip(layers, self.layer_readouts, strict=True)):
            features = layer(features, edges)
            if self.router is not None and invariants is not None and index < len(self.layers) - 1:
                features = self.router(features, layer.layout, species, invariants)
            energies = energies + readout(layer.layout.take(features, SCALAR)[:, 0, :channels])[:, 0]
        return features, energies
