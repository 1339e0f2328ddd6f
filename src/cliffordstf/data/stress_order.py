"""The order of the shear components of a stress given as six numbers.

The first three are xx, yy, zz everywhere; programs disagree about the rest. Where a format does not fix the order it is
found from the forces: a pair potential is fitted to them, its virial predicts the shear stress of every structure, and
the order in which labels and prediction agree is the right one, if only one does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations

import numpy as np

from cliffordstf.data.neighbours import edge_vectors, neighbour_list
from cliffordstf.data.structure import FloatArray, Structure
from cliffordstf.errors import ConfigError

VOIGT = "yz xz xy"
"""ASE's order."""
VASP = "xy yz xz"

Order = tuple[int, int, int]

CUTOFF, FUNCTIONS = 6.0, 10
"""Å and number of radial functions of the fitted pair potential."""
MOST_PAIRS = 6
"""Kinds of pairs of elements that a fit may have."""
MOST_STRUCTURES = 40
"""Structures of a group that are looked at: more add time and no certainty."""
FEWEST_STRUCTURES = 5
AGREEMENT, MARGIN = 0.8, 0.25
"""Least correlation of labels and prediction in the best order, and by how much the second must be worse."""


def parse_stress_order(text: str) -> str:
    """Canonical spelling of an order.

    Example:
        >>> parse_stress_order("XY, YZ, ZX")
        'xy yz xz'
    """
    words = ["".join(sorted(word)) for word in text.casefold().replace(",", " ").split()]
    if words[:3] == ["xx", "yy", "zz"]:
        words = words[3:]
    if sorted(words) != sorted(VOIGT.split()):
        raise ConfigError(
            f"'{text}' is not an order of shear components; write 'xy yz zx' (VASP), 'yz xz xy' (Voigt, as in ASE) or "
            "another order of xy, yz and xz"
        )
    return " ".join(words)


def places(order: str) -> Order:
    """Where yz, xz and xy stand among the last three numbers.

    Example:
        >>> places("xy yz xz")
        (1, 2, 0)
    """
    words = order.split()
    yz, xz, xy = (words.index(name) for name in VOIGT.split())
    return yz, xz, xy


@dataclass(frozen=True)
class Sample:
    """A periodic structure with forces, (atoms, 3), and the last three numbers of its stress, (3,), in any unit."""

    structure: Structure
    forces: FloatArray
    shear: FloatArray


def find_orders(groups: Mapping[str, Sequence[Sample]]) -> dict[str, str | None]:
    """The order in each group of structures, None where the forces do not decide it.

    Args:
        groups: Structures by what may have an order of its own, such as the kind of calculation.
    """
    chosen = {name: samples[:: max(1, -(-len(samples) // MOST_STRUCTURES))] for name, samples in groups.items()}
    everything = [sample for samples in chosen.values() for sample in samples]
    elements = sorted({int(number) for sample in everything for number in sample.structure.numbers})
    pairs = {pair: index for index, pair in enumerate(combinations_with_replacement(elements, 2))}
    if not everything or len(pairs) > MOST_PAIRS:
        return dict.fromkeys(groups)
    terms = {name: [_terms(sample.structure, pairs) for sample in samples] for name, samples in chosen.items()}
    coefficients = _fit(
        [forces for parts in terms.values() for forces, _ in parts], [sample.forces for sample in everything]
    )
    return {
        name: _best_order(
            np.array([shear @ coefficients for _, shear in terms[name]]),
            np.array([sample.shear for sample in samples]),
        )
        for name, samples in chosen.items()
    }


def _terms(structure: Structure, pairs: Mapping[tuple[int, int], int]) -> tuple[FloatArray, FloatArray]:
    """Forces (atoms, 3, terms) and shear stresses yz, xz, xy (3, terms) of every term of the pair potential."""
    edges = neighbour_list(structure, CUTOFF)
    vectors = edge_vectors(structure.positions, structure.cell, edges)
    distances = np.linalg.norm(vectors, axis=1)
    directions = vectors / distances[:, None]
    ends = np.sort(np.stack([structure.numbers[edges.receivers], structure.numbers[edges.senders]], axis=1), axis=1)
    kind = np.array([pairs[int(a), int(b)] for a, b in ends], dtype=np.int64)
    values = np.zeros((len(distances), len(pairs), FUNCTIONS))
    values[np.arange(len(kind)), kind] = _radial(distances)
    flat = values.reshape(len(distances), -1)
    forces = np.zeros((len(structure), 3, flat.shape[1]))
    for axis in range(3):
        np.add.at(forces[:, axis], edges.receivers, -directions[:, axis, None] * flat)
    shear = [
        -np.einsum("e,e,e,ek->k", distances, directions[:, a], directions[:, b], flat)
        for a, b in ((1, 2), (0, 2), (0, 1))
    ]
    return forces, np.array(shear) / (2 * structure.periodic_measure())


def _radial(distances: FloatArray) -> FloatArray:
    """Gaussians that vanish at the cutoff, (edges, functions)."""
    centres = np.linspace(1.2, CUTOFF - 0.3, FUNCTIONS)
    gaussians = np.exp(-(((distances[:, None] - centres) / 0.5) ** 2))
    return np.asarray(gaussians * ((1 - (distances / CUTOFF) ** 2) ** 2)[:, None])


def _fit(terms: Sequence[FloatArray], forces: Sequence[FloatArray]) -> FloatArray:
    """Damped least squares of the forces."""
    size = terms[0].shape[-1]
    square, right = np.zeros((size, size)), np.zeros(size)
    for part, force in zip(terms, forces, strict=True):
        known = np.isfinite(force).all(axis=1)
        rows = part[known].reshape(-1, size)
        square += rows.T @ rows
        right += rows.T @ force[known].ravel()
    damping = 1e-6 * np.trace(square) / size + np.finfo(np.float64).tiny
    return np.asarray(np.linalg.solve(square + damping * np.eye(size), right))


def _best_order(predicted: FloatArray, labels: FloatArray) -> str | None:
    """The order in which labels (structures, 3) fit predictions (structures, 3) of yz, xz, xy; None if unclear."""
    known = np.asarray(np.isfinite(labels).all(axis=1))
    predicted, labels = predicted[known], labels[known]
    if len(labels) < FEWEST_STRUCTURES:
        return None
    size = float(np.linalg.norm(predicted) * np.linalg.norm(labels))
    if size == 0:
        return None
    # The sign is left open: a pair potential may have it wrong where bonds are strained, but alike for all three.
    scores = sorted(
        ((abs(float((predicted * labels[:, order]).sum())) / size, order) for order in permutations(range(3))),
        reverse=True,
    )
    (best, order), (second, _) = scores[:2]
    if best < AGREEMENT or best - second < MARGIN:
        return None
    words = [""] * 3
    for name, place in zip(VOIGT.split(), order, strict=True):
        words[place] = name
    return " ".join(words)
