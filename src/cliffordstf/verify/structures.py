"""Small structures with no symmetry of their own, for checks."""

import numpy as np

from cliffordstf.data.structure import Structure


def random_cluster(elements: tuple[int, ...], atoms: int = 10, seed: int = 0, spacing: float = 1.3) -> Structure:
    """Atoms scattered at least `spacing` Å apart, elements in turn."""
    generator = np.random.default_rng(seed)
    radius = spacing * (1.2 * atoms) ** (1 / 3) + 0.5
    positions: list[np.ndarray] = []
    while len(positions) < atoms:
        trial = generator.uniform(-radius, radius, size=3)
        if all(np.linalg.norm(trial - other) > spacing for other in positions):
            positions.append(trial)
    numbers = np.array([elements[index % len(elements)] for index in range(atoms)])
    return Structure(numbers, np.array(positions), name="random cluster")


def triclinic_crystal(elements: tuple[int, ...], seed: int = 0) -> Structure:
    """Four atoms in a skewed cell whose shortest height is below most cutoffs."""
    generator = np.random.default_rng(seed)
    cell = np.array([[4.1, 0.3, -0.4], [0.9, 3.8, 0.5], [-0.7, 1.1, 4.4]])
    corners = np.array([[0.0, 0, 0], [0.5, 0.5, 0.05], [0.5, 0.0, 0.5], [0.02, 0.5, 0.5]])
    positions = (corners + generator.uniform(-0.03, 0.03, corners.shape)) @ cell
    numbers = np.array([elements[index % len(elements)] for index in range(len(corners))])
    return Structure(numbers, positions, cell, np.array([True, True, True]), name="triclinic crystal")
