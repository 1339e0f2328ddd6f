"""Edges for networks that add a loop to every atom, and take every edge from an atom to itself for such a loop.

In a small periodic cell an edge from an atom to itself may lead to the atom's own image. Two modules make these
networks treat it as the neighbour it is.
"""

import torch
from torch import Tensor, nn

from cliffordstf.data.batch import Batch


class EdgesAndLoops(nn.Module):
    """Takes the place of a network's own neighbour search.

    The network hands it, unread, what it was given as positions: here a `Batch`.

    Args:
        weighted: Any module whose weights have the dtype that the network computes in.
    """

    def __init__(self, weighted: nn.Module) -> None:
        super().__init__()
        self._weighted = (weighted,)  # in a tuple, so that its weights are not registered twice

    def forward(self, batch: Batch, *_: object) -> tuple[Tensor, Tensor, Tensor]:
        """Edges, then loops of length zero.

        Returns:
            Senders and receivers (2, edges + atoms), lengths in Å (edges + atoms,), vectors (edges + atoms, 3).
        """
        vectors = batch.vectors().to(next(self._weighted[0].parameters()).dtype)
        lengths = torch.linalg.vector_norm(vectors, dim=1)
        # The network normalises every vector but those of supposed loops: images have to come normalised.
        image = (batch.senders == batch.receivers)[:, None]
        vectors = torch.where(image, vectors / lengths[:, None], vectors)
        loops = torch.arange(len(batch.numbers), device=vectors.device)
        index = torch.stack([torch.cat([batch.senders, loops]), torch.cat([batch.receivers, loops])])
        lengths = torch.cat([lengths, lengths.new_zeros(len(loops))])
        return index, lengths, torch.cat([vectors, vectors.new_zeros(len(loops), 3)])


class ImageNeighbours(nn.Module):
    """A neighbour embedding that drops loops, made to keep edges to images by leading them to a copy of the atom.

    Args:
        embedding: Upstream's module.
        source: Row of the edge index that it reads neighbours from.
    """

    def __init__(self, embedding: nn.Module, source: int) -> None:
        super().__init__()
        self.embedding = embedding
        self.source = source

    def forward(self, species: Tensor, x: Tensor, index: Tensor, lengths: Tensor, features: Tensor) -> Tensor:
        """Arguments and result as upstream: (atoms,), (atoms, channels), (2, edges), (edges,), (edges, basis)."""
        image = (index[0] == index[1]) & (lengths > 0)
        if not image.any():
            return self.embedding(species, x, index, lengths, features)
        atoms = len(species)
        led_to_copies = index.clone()
        led_to_copies[self.source] += atoms * image
        return self.embedding(species.repeat(2), x.repeat(2, 1), led_to_copies, lengths, features)[:atoms]
