"""The default model. Wiring only: the layers are in `cliffordstf.nn`."""

from collections.abc import Iterable, Sequence
from typing import cast

from torch import Tensor, nn

from cliffordstf.algebra.tracks import BIVECTOR, PSEUDOSCALAR, SCALAR, VECTOR, Layout, stf
from cliffordstf.data.batch import Batch
from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels import one_node, take
from cliffordstf.model.config import DefaultConfig
from cliffordstf.model.output import ModelOutput
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.interaction import DefaultInteraction
from cliffordstf.nn.radial import RadialFunctions
from cliffordstf.nn.readout import energy_network


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
    def networks(self) -> list[nn.Sequential]:
        """The networks of distances and the readouts of the layers."""
        return [self.radial.network, *cast("Iterable[nn.Sequential]", self.layer_readouts)]

    @property
    def energy_bias(self) -> Tensor:
        """What is added to the energy of every atom, (1,)."""
        last = cast("nn.Sequential", self.layer_readouts[-1])
        return cast("nn.Linear", last[-1]).bias

    def forward(self, batch: Batch, species: Tensor) -> ModelOutput:
        """Atomic energies of a batch."""
        vectors = batch.pair_vectors().to(self.embedding.weight.dtype)
        geometry = Geometry.from_vectors(vectors, batch.edges, batch.numbers.shape[0])
        features = self.embedding(species)[:, None]
        radial = self.radial(geometry.distances, geometry.edges.ends(species))

        def scalars() -> list[Tensor]:
            return self.layer_scalars(features, species, radial, geometry.directions, geometry.edges)

        energies = features.new_zeros(species.shape[0])
        found = one_node(scalars, [features, geometry.directions], self.config.lmax)
        for readout, values in zip(self.layer_readouts, found, strict=True):
            energies = energies + readout(values[:, 0])[:, 0]
        return ModelOutput(energies)

    def layer_scalars(
        self, features: Tensor, species: Tensor, radial: Sequence[Tensor], directions: Tensor, edges: EdgeIndex
    ) -> list[Tensor]:
        """The scalars that each layer puts out, (atoms, 1, channels)."""
        found = []
        for layer, functions in zip(cast("Iterable[DefaultInteraction]", self.layers), radial, strict=True):
            features = layer(features, species, functions, directions, edges)
            scalars = layer.layout.slice(SCALAR)
            found.append(take(features, scalars.start, 1))
        return found
