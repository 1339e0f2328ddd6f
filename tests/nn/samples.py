"""Features, graphs and gradient checks for the tests of the layers."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from cliffordstf.algebra.tracks import GRADES, STF2, STF3, Layout, Track
from cliffordstf.graph import EdgeIndex
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.norm import norm
from tests.kernels.graphs import edge_index

Layer = TypeVar("Layer", bound=nn.Module)

FULL = Layout((*GRADES, STF2, STF3))
ATOMS, CHANNELS, CUTOFF = 6, 8, 5.0
SPECIES = torch.tensor([0, 1, 1, 0, 1, 0])
PAIRS = torch.tensor([(i, j) for i in range(ATOMS - 1) for j in range(i + 1, ATOMS - 1)])
"""All pairs of the first five atoms; the last one has no neighbours."""


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers in float64."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def features(layout: Layout, atoms: int = ATOMS, channels: int = CHANNELS, seed: int = 0) -> Tensor:
    """Random features (atoms, components, channels)."""
    return draw(atoms, layout.dims, channels, seed=seed)


def positions(seed: int = 7) -> Tensor:
    """Places of the atoms, Å, (atoms, 3), at least 0.5 Å apart."""
    found = 1.5 * draw(ATOMS, 3, seed=seed)
    assert torch.pdist(found).min() > 0.5
    return found


def graph(pairs: Tensor = PAIRS, atoms: int = ATOMS) -> EdgeIndex:
    """Both edges of every pair."""
    return edge_index([(int(i), int(j)) for i, j in pairs], atoms)


def edge_geometry(places: Tensor, pairs: Tensor = PAIRS) -> Geometry:
    """Lengths and directions of the edges."""
    edges = graph(pairs, len(places))
    return Geometry.from_vectors(places[edges.senders] - places[edges.receivers], edges, len(places))


def pair_geometry(places: Tensor, pairs: Tensor = PAIRS) -> Geometry:
    """Lengths and directions of the pairs."""
    edges = graph(pairs, len(places))
    first = edges.pair_edges[:, 0]
    vectors = places[edges.senders[first]] - places[edges.receivers[first]]
    return Geometry.from_vectors(vectors, edges, len(places))


def made(make: Callable[[], Layer]) -> Layer:
    """A layer in float64 with weights that are the same each time and no zeros among them."""
    torch.manual_seed(0)
    layer = make().double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer


def check_gradients(
    layer: nn.Module,
    inputs: Sequence[Tensor],
    arguments: Callable[..., Sequence[Any]] = lambda *x: x,
    of_weights: bool = True,
) -> None:
    """Compare first and second derivatives in inputs and weights with finite differences.

    Args:
        layer: In float64.
        inputs: Tensors to differentiate with respect to.
        arguments: From these tensors to the layer's arguments.
        of_weights: Whether derivatives of the weights' gradients are compared, too. Training on forces needs those of
            the inputs' gradients only.
    """
    names = [name for name, _ in layer.named_parameters()]
    leaves = [value.detach().clone().requires_grad_() for value in [*inputs, *layer.parameters()]]

    def function(*values: Tensor) -> tuple[Tensor, ...]:
        weights = dict(zip(names, values[len(inputs) :], strict=True))
        found = functional_call(layer, weights, tuple(arguments(*values[: len(inputs)])))
        return (found,) if isinstance(found, Tensor) else tuple(found)

    assert torch.autograd.gradcheck(function, leaves, fast_mode=True)
    if of_weights:
        assert torch.autograd.gradgradcheck(function, leaves, fast_mode=True, atol=1e-4)
        return

    def slopes(*values: Tensor) -> tuple[Tensor, ...]:
        outputs = function(*values)
        total = sum((part * draw(*part.shape, seed=index)).sum() for index, part in enumerate(outputs))
        return torch.autograd.grad(total, values[: len(inputs)], create_graph=True)

    assert torch.autograd.gradcheck(slopes, leaves, fast_mode=True, atol=1e-4)


def standard(layout: Layout, atoms: int, channels: int, seed: int = 0) -> Tensor:
    """Random features of which every orthonormal component has mean square one, up to a common factor per track."""
    x = features(layout, atoms, channels, seed)
    for track in layout:
        part = layout.take(x, track)
        part /= mean_square(part, track) ** 0.5
    return x


def mean_square(part: Tensor, track: Track) -> float:
    """Of an orthonormal component of a track (atoms, 2l+1, channels)."""
    return float((norm(part.detach(), track) ** 2).mean()) / (2 * track.degree + 1)
