"""Tensors in a frame whose z axis lies along a direction.

There a coupling with the direction's tensors is no matrix but a few numbers: it keeps the order |m| of a component (how
often it turns with a turn about z), and does the same to both components of an order. So features are turned into the
frame, multiplied by numbers, and turned back.

Frame components of degree l: the one of order 0, then two of each order 1 … l, which behave like the cosine and the
sine of m times the angle about z. They are orthonormal: norms are Frobenius norms, and turns are orthogonal matrices.
"""

from fractions import Fraction
from functools import cache
from math import comb, sqrt

import numpy as np
from numpy.typing import NDArray

from cliffordstf.algebra.couplings import TrackCoupling, coupling
from cliffordstf.algebra.polynomials import Polynomial, harmonic_projection
from cliffordstf.algebra.stf import gram_matrix, power_polynomials, stored_components
from cliffordstf.algebra.tracks import BIVECTOR, Track

Matrix = NDArray[np.float64]

AXES = (2, 0, 1)
"""Frame components of a vector: z, x, y."""

# Hodge dual of e12, e13, e23; then an axial vector's components -y and x take the places of a vector's x and y, because
# a vector product with z turns x into -y and y into x.
_HODGE = np.array([[0, 0, 1], [0, -1, 0], [1, 0, 0]], dtype=np.float64)
_TURNED_AXES = np.array([[0, 0, 1], [0, -1, 0], [1, 0, 0]], dtype=np.float64)


@cache
def natural_basis(degree: int) -> Matrix:
    """Frame components from the stored ones of a tensor, in the frame of z itself, (2l+1, 2l+1)."""
    inner = np.array(gram_matrix(degree), dtype=np.float64).reshape(2 * degree + 1, 2 * degree + 1)
    rows = []
    for order, is_sine in [(0, False), *((m, sine) for m in range(1, degree + 1) for sine in (False, True))]:
        harmonic = harmonic_projection(_order_polynomial(degree, order, is_sine), degree)
        tensor = np.array([float(value) for value in stored_components(harmonic, degree)])
        rows.append(inner @ tensor / sqrt(tensor @ inner @ tensor))
    return np.array(rows)


def _order_polynomial(degree: int, order: int, is_sine: bool) -> Polynomial:
    """z^(l-m) times the real or imaginary part of (x + iy)^m."""
    return {
        (order - k, k, degree - order): Fraction((-1) ** (k // 2) * comb(order, k))
        for k in range(order + 1)
        if k % 2 == int(is_sine)
    }


def track_basis(track: Track) -> Matrix:
    """Frame components from the stored ones of a track, (2l+1, 2l+1)."""
    return _TURNED_AXES @ _HODGE if track == BIVECTOR else natural_basis(track.degree)


@cache
def raising(degree: int) -> Matrix:
    """The symmetric-traceless product of a vector and a tensor of degree l-1 in frame components, (2l+1, 3, 2l-1).

    Scaled to be an isometry, so that with a turn of vectors it makes the turn of degree l from that of degree l-1.
    """
    table = coupling(1, degree - 1, degree).tensor().numpy()
    inverses = [np.linalg.inv(natural_basis(l)) for l in (1, degree - 1)]
    product = np.einsum("abc,ai,bj,kc->kij", table, *inverses, natural_basis(degree))
    return product / sqrt(np.sum(product[0] ** 2))


@cache
def generators(track: Track) -> Matrix:
    """How frame components change with a turn about the frame's x and y axes, (2, 2l+1, 2l+1), antisymmetric."""
    turns = np.zeros((2, 3, 3))
    turns[0, 1, 2], turns[0, 2, 1] = -1, 1  # x × v
    turns[1, 0, 2], turns[1, 2, 0] = 1, -1  # y × v
    if track == BIVECTOR:
        return _TURNED_AXES @ turns @ _TURNED_AXES.T
    vector = turns[:, AXES][:, :, AXES]
    found = np.zeros((2, 1, 1))
    for degree in range(1, track.degree + 1):
        up, lower = raising(degree), np.eye(2 * degree - 1)
        found = np.einsum("kij,tip,jq,lpq->tkl", up, vector, lower, up) + np.einsum(
            "kij,ip,tjq,lpq->tkl", up, np.eye(3), found, up
        )
    return found


def aligned_numbers(entry: TrackCoupling) -> Matrix:
    """What a coupling with the tensors of direction z does to each order, (lower degree + 1).

    The tensors are scaled as in `stf_powers` with `unit`.

    Raises:
        ValueError: The coupling does not conserve parity.
    """
    if entry.a.parity * entry.b.parity != entry.c.parity or not entry.b.natural:
        raise ValueError(f"{entry.a.name} with {entry.b.name} to {entry.c.name} does not conserve parity.")
    keys, table = power_polynomials(entry.b.degree, True)
    along_z = [i for i, (x, y, _) in enumerate(keys) if x == y == 0]
    tensors = table[along_z, 0, entry.b.degree**2 :].sum(0).numpy()
    matrix = np.einsum("abc,b->ca", entry.tensor().numpy(), tensors)
    matrix = track_basis(entry.c) @ matrix @ np.linalg.inv(track_basis(entry.a))
    lower = min(entry.a.degree, entry.c.degree)
    numbers = np.array([matrix[max(0, 2 * m - 1), max(0, 2 * m - 1)] for m in range(lower + 1)])
    diagonal = np.zeros_like(matrix)
    for m, number in enumerate(numbers):
        for i in (2 * m - 1, 2 * m) if m else (0,):
            diagonal[i, i] = number
    assert np.allclose(matrix, diagonal, atol=1e-12), "a coupling is diagonal in its frame"
    return numbers
