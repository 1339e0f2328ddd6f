"""Which atoms an edge operator connects: directed edges in CSR form, and which of them are each other's reverse."""

from typing import NamedTuple

import torch
from torch import Tensor


class EdgeIndex(NamedTuple):
    """Directed edges, sorted by receiver, each with its reverse.

    A pair is an edge together with its reverse: what depends on the distance alone is computed once per pair. The edge
    with the lower index is the straight one, the other is turned.

    Attributes:
        senders, receivers: int64 (edges,).
        row_pointers: Start of each receiver's edges, int64 (atoms + 1,).
        reverse: Index of the edge the other way round, int64 (edges,).
        pair: Index of the pair, int64 (edges,).
        turned: uint8 (edges,).
        pair_edges: The straight and the turned edge of each pair, int64 (pairs, 2), in the order of the straight ones:
            kernels take the pairs of a range of receivers for a range.
    """

    senders: Tensor
    receivers: Tensor
    row_pointers: Tensor
    reverse: Tensor
    pair: Tensor
    turned: Tensor
    pair_edges: Tensor

    @classmethod
    def from_reverse(cls, senders: Tensor, receivers: Tensor, row_pointers: Tensor, reverse: Tensor) -> "EdgeIndex":
        """Number the pairs in the order of their straight edges."""
        straight = torch.arange(len(reverse), device=reverse.device) < reverse
        first = straight.nonzero()[:, 0]
        second = reverse.index_select(0, first)
        pair = torch.empty_like(reverse)
        numbers = torch.arange(len(first), device=reverse.device)
        pair[first] = numbers
        pair[second] = numbers
        turned = (~straight).to(torch.uint8)
        return cls(senders, receivers, row_pointers, reverse, pair, turned, torch.stack([first, second], dim=1))

    def ends(self, values: Tensor) -> Tensor:
        """Values of atoms (atoms,) -> those of the two atoms of every pair, (pairs, 2)."""
        straight = self.pair_edges[:, 0]
        atoms = torch.stack([self.senders.index_select(0, straight), self.receivers.index_select(0, straight)], dim=1)
        return values.index_select(0, atoms.flatten()).view_as(atoms)

    def to(self, device: torch.device | str) -> "EdgeIndex":
        """Move every tensor to a device."""
        return EdgeIndex(*(tensor.to(device) for tensor in self))
