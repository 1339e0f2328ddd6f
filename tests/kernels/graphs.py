"""Small symmetric graphs and plans for the tests of the operators."""

import torch
from torch import Tensor

from cliffordstf.algebra.couplings import admissible_couplings
from cliffordstf.algebra.tracks import Layout, natural_track
from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels import EdgePath, EdgePlan, NodePath, NodePlan


def edge_index(pairs: list[tuple[int, int]], atoms: int) -> EdgeIndex:
    """Both directions of every pair (i, j), sorted by receiver."""
    directed = sorted([*pairs, *((j, i) for i, j in pairs)])
    place = {edge: index for index, edge in enumerate(directed)}
    reverse = torch.tensor([place[j, i] for i, j in directed], dtype=torch.int64)
    receivers, senders = torch.tensor(directed, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    return EdgeIndex.from_reverse(senders, receivers, torch.searchsorted(receivers, torch.arange(atoms + 1)), reverse)


def random_graph(atoms: int, chance: float, generator: torch.Generator) -> EdgeIndex:
    """Every pair with some probability; the last atom has no neighbours."""
    pairs = [(i, j) for i in range(atoms - 1) for j in range(i + 1, atoms - 1)]
    kept = torch.rand(len(pairs), generator=generator) < chance
    return edge_index([pair for pair, keep in zip(pairs, kept, strict=True) if keep], atoms)


def molecules(count: int, atoms: int) -> EdgeIndex:
    """Structures side by side, in each of which every atom is a neighbour of every other."""
    inside = [(i, j) for i in range(atoms) for j in range(i + 1, atoms)]
    return edge_index(
        [(first + i, first + j) for first in range(0, count * atoms, atoms) for i, j in inside], count * atoms
    )


def edge_plan(source: Layout, lmax: int, target: Layout, shared: int | None = None) -> EdgePlan:
    """All admissible couplings with directions up to `lmax`; with `shared` weight rows, several paths use each."""
    edge = Layout(tuple(natural_track(degree) for degree in range(lmax + 1)))
    couplings = admissible_couplings(source.tracks, edge.tracks, target.tracks)
    reached = Layout(tuple({c.c for c in couplings}))
    rows = shared or len(couplings)
    paths = tuple(
        EdgePath(c, source.slice(c.a).start, edge.slice(c.b).start, reached.slice(c.c).start, n % rows, 0.5 + 0.1 * n)
        for n, c in enumerate(couplings)
    )
    return EdgePlan(paths, source.dims, edge.dims, reached.dims, rows)


def node_plan(left: Layout, right: Layout, target: Layout) -> NodePlan:
    """All admissible couplings, each with its own weights."""
    couplings = admissible_couplings(left.tracks, right.tracks, target.tracks)
    reached = Layout(tuple({c.c for c in couplings}))
    paths = tuple(
        NodePath(c, left.slice(c.a).start, right.slice(c.b).start, reached.slice(c.c).start, n, 1.5 - 0.1 * n)
        for n, c in enumerate(couplings)
    )
    return NodePlan(paths, left.dims, right.dims, reached.dims, len(paths))


def draw(generator: torch.Generator, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """A random leaf that requires a gradient."""
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
