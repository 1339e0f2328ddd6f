"""Neighbour searches of compiled extensions that `make peers` does not install, after their documentation."""

import torch
from torch import Tensor
from torch.nn.functional import pad


def radius_graph(x: Tensor, r: float, batch: Tensor, loop: bool = False, max_num_neighbors: int = 32) -> Tensor:
    """That of torch-cluster and pyg-lib: sources and targets of a structure's pairs within a radius, (2, edges)."""
    near = (x[:, None] - x[None]).norm(dim=-1) < r
    near &= batch[:, None] == batch[None]
    if not loop:
        near.fill_diagonal_(False)
    assert near.sum(dim=1).max() <= max_num_neighbors, "upstream would leave some out"
    targets, sources = near.nonzero(as_tuple=True)
    return torch.stack([sources, targets])


def neighbour_pairs(
    *,
    positions: Tensor,
    batch: Tensor,
    box_vectors: Tensor,
    use_periodic: bool,
    max_num_pairs: int,
    cutoff_lower: float,
    cutoff_upper: float,
    loop: bool,
    include_transpose: bool,
    **_: object,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """That of torchmd-net's Warp kernel: pairs (i, j), r_i - r_j, its length, and how many there are.

    All but the last are padded to a fixed number of pairs: indices with -1, the others with zeros. Of a pair's images
    in a box, rectangular here, the nearest counts.
    """
    assert loop
    assert include_transpose
    assert cutoff_lower == 0
    vectors = positions[:, None] - positions[None]
    if use_periodic:
        sides = box_vectors.diagonal()
        assert torch.equal(box_vectors, sides.diag())
        vectors = vectors - (vectors / sides).round() * sides
    near = (vectors.norm(dim=-1) < cutoff_upper) & (batch[:, None] == batch[None])
    index, vectors = near.nonzero().T, vectors[near]
    found = len(vectors)
    assert found <= max_num_pairs, "upstream would refuse"
    empty = (0, max_num_pairs - found)
    lengths = torch.linalg.vector_norm(vectors, dim=1)
    return pad(index, empty, value=-1), pad(vectors, (0, 0, *empty)), pad(lengths, empty), torch.tensor([found])


def triplets(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, ...]:
    """Those of PyTorch Geometric's DimeNet, for which it needs torch-sparse: every way k -> j -> i with k not i.

    Returns:
        i and j of the edges j -> i; i, j and k of the ways; the edges k -> j and j -> i of the ways.
    """
    edges = list(zip(*edge_index.tolist(), strict=True))
    assert max(map(max, edges)) < num_nodes
    ways = [
        (i, j, k, kj, ji)
        for ji, (j, i) in enumerate(edges)
        for kj, (k, middle) in enumerate(edges)
        if middle == j and k != i
    ]
    sources, targets = edge_index
    return targets, sources, *torch.tensor(ways).T
