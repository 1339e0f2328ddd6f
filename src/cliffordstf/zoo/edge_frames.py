"""Frames that point along edges, and how irreducible representations turn into them, differentiably."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

POLE = (0.412, 0.587, 0.697)
"""Direction opposite which the frames are singular: far from those of crystals whose axes are those of space."""


class EdgeFrames(nn.Module):
    """Wigner matrices of rotations that bring each edge to the second axis.

    What is left open, the roll around the edge, is a smooth function of the direction everywhere but opposite `POLE`
    (no choice is smooth everywhere). In training mode it is random.

    Args:
        lmax: Highest degree.
        wigner_3j: Degrees l1, l2, l3 -> Wigner 3j symbols (2 l1 + 1, 2 l2 + 1, 2 l3 + 1) in a real basis whose degree 1
            is x, y, z.
    """

    pole: Tensor
    turn: Tensor

    def __init__(self, lmax: int, wigner_3j: Callable[[int, int, int], Tensor]) -> None:
        super().__init__()
        self.lmax = lmax
        pole = nn.functional.normalize(torch.tensor(POLE, dtype=torch.float64), dim=0)
        second_axis = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
        self.register_buffer("pole", pole, persistent=False)
        self.register_buffer("turn", half_turn(pole + second_axis), persistent=False)
        for degree in range(2, lmax + 1):
            coupling = wigner_3j(degree - 1, 1, degree) * (2 * degree + 1) ** 0.5
            self.register_buffer(f"coupling_{degree}", coupling, persistent=False)

    def forward(self, vectors: Tensor, dtype: torch.dtype) -> Tensor:
        """Edge vectors (edges, 3) -> block-diagonal matrices (edges, (lmax + 1)², (lmax + 1)²) of a dtype."""
        first = self.rotations(vectors).to(dtype)
        blocks = [torch.ones_like(first[:, :1, :1]), first]
        for degree in range(2, self.lmax + 1):
            coupling = self.get_buffer(f"coupling_{degree}").to(dtype)
            turned = torch.einsum("ija,eik->ejka", coupling, blocks[-1])
            turned = torch.einsum("ejka,ejm->ekma", turned, first)
            blocks.append(torch.einsum("ekma,kmb->eab", turned, coupling))
        matrices = first.new_zeros(len(vectors), (self.lmax + 1) ** 2, (self.lmax + 1) ** 2)
        for degree, block in enumerate(blocks[: self.lmax + 1]):
            own = slice(degree**2, (degree + 1) ** 2)
            matrices[:, own, own] = block
        return matrices

    def rotations(self, vectors: Tensor) -> Tensor:
        """Edge vectors (edges, 3) -> rotations (edges, 3, 3) that bring each of them to the second axis."""
        pole, turn = self.pole.to(vectors.dtype), self.turn.to(vectors.dtype)
        # Half a turn around the line midway between a direction and the pole swaps the two.
        rotations = turn @ half_turn(nn.functional.normalize(vectors, dim=-1) + pole)
        if not self.training:
            return rotations
        return rolls(2 * torch.pi * torch.rand_like(vectors[:, 0])) @ rotations


def half_turn(axes: Tensor) -> Tensor:
    """Rotations by π around axes (…, 3) of any length, (…, 3, 3)."""
    units = nn.functional.normalize(axes, dim=-1)
    return 2 * units[..., :, None] * units[..., None, :] - torch.eye(3, dtype=axes.dtype, device=axes.device)


def rolls(angles: Tensor) -> Tensor:
    """Rotations around the second axis by angles (edges,), (edges, 3, 3)."""
    cosine, sine, zero, one = angles.cos(), angles.sin(), torch.zeros_like(angles), torch.ones_like(angles)
    rows = [[cosine, zero, sine], [zero, one, zero], [-sine, zero, cosine]]
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)
