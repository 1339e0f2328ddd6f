"""Short distances: the screened nuclear repulsion of Ziegler, Biersack and Littmark, and distances that have a floor.

Both are switched on below an outer distance d₁, fully at d₀ = 0.75 d₁, by a polynomial whose first two derivatives
vanish at both ends.
"""

from torch import Tensor

COULOMB = 14.399645478
"""eV Å: the energy of two unit charges at 1 Å."""
SCREENING = 0.46850
"""Å: length of the screening function, before it is divided by the charges' powers."""
TERMS = ((0.18175, 3.19980), (0.50986, 0.94229), (0.28022, 0.40290), (0.02817, 0.20162))
"""Weights and exponents of the universal screening function."""
INNER = 0.75
"""Inner distance as a share of the outer one."""


def switch(distances: Tensor, outer: Tensor) -> tuple[Tensor, Tensor]:
    """1 below the inner distance, 0 beyond the outer one, and its derivative; (pairs,) each."""
    width = (1 - INNER) * outer
    x = ((distances - INNER * outer) / width).clamp(0.0, 1.0)
    return 1 - x**3 * (10 - 15 * x + 6 * x**2), -30 * x**2 * (1 - x) ** 2 / width


def floored(distances: Tensor, outer: Tensor) -> tuple[Tensor, Tensor]:
    """Distances that stop falling, and their derivative.

    They are what they were beyond the outer distance, and (inner + outer) / 2 below the inner one.

    Args:
        distances: Å, (pairs,).
        outer: Å, (pairs,).
    """
    width = (1 - INNER) * outer
    x = ((distances - INNER * outer) / width).clamp(0.0, 1.0)
    found = outer - width * (0.5 - x**4 * (2.5 - 3 * x + x**2))
    slope = x**3 * (10 - 15 * x + 6 * x**2)
    near = distances < outer
    return found.where(near, distances), slope.where(near, slope.new_ones(()))


def floored_vectors(vectors: Tensor, outer: Tensor) -> Tensor:
    """Vectors (pairs, 3) with the same directions and floored lengths; those beyond `outer` keep every bit."""
    distances = vectors.norm(dim=1)
    factor = (floored(distances, outer)[0] / distances).where(distances < outer, distances.new_ones(()))
    return vectors * factor[:, None]


def pull_back(gradients: Tensor, vectors: Tensor, outer: Tensor) -> Tensor:
    """Gradients with respect to vectors, (pairs, 3), from those with respect to their floored ones."""
    distances = vectors.norm(dim=1, keepdim=True)
    found, slope = floored(distances[:, 0], outer)
    directions = vectors / distances
    along = (gradients * directions).sum(dim=1, keepdim=True) * directions
    changed = (gradients - along) * (found[:, None] / distances) + along * slope[:, None]
    return changed.where(distances < outer[:, None], gradients)


def repulsion(distances: Tensor, first: Tensor, second: Tensor, outer: Tensor) -> tuple[Tensor, Tensor]:
    """Switched repulsion of pairs of atoms, eV, and its derivative, eV/Å; (pairs,) each.

    Args:
        distances: Å, (pairs,).
        first, second: Atomic numbers, (pairs,).
        outer: Å, (pairs,).

    Example:
        >>> import torch
        >>> one = torch.ones(1, dtype=torch.float64)
        >>> energy, slope = repulsion(0.5 * one, one, one, 0.7 * one)
        >>> round(float(energy), 2), float(slope) < 0
        (5.91, True)
    """
    length = SCREENING / (first**0.23 + second**0.23)
    scaled = distances / length
    parts = [(weight * (-power * scaled).exp(), power) for weight, power in TERMS]
    screening = sum(part for part, _ in parts)
    falling = sum(power * part for part, power in parts)
    bare = COULOMB * first * second / distances
    energy, slope = bare * screening, -bare * (screening / distances + falling / length)
    weight, weight_slope = switch(distances, outer)
    return energy * weight, slope * weight + energy * weight_slope
