"""Reference for the coupling table that shares no code with it: Wigner 3j symbols in a spherical basis.

The spherical basis tensors of rank l are built by coupling spherical unit vectors with Clebsch-Gordan coefficients,
which makes them an orthonormal basis of the symmetric-traceless tensors. A bilinear map is then evaluated as

  Cartesian -> spherical (orthonormal change of basis) -> 3j coupling -> Cartesian.

Only tests and `cliffordstf verify` use this module; the model never does. Full tensors are complex128 or float64 with
shape (samples, 3, …, 3).
"""

from functools import cache
from math import factorial, sqrt

import torch
from torch import Tensor


def wigner_3j(l1: int, l2: int, l3: int, m1: int, m2: int, m3: int) -> float:
    """Wigner 3j symbol by Racah's formula, for integer degrees."""
    if m1 + m2 + m3 != 0 or not abs(l1 - l2) <= l3 <= l1 + l2:
        return 0.0
    if abs(m1) > l1 or abs(m2) > l2 or abs(m3) > l3:
        return 0.0
    first = max(0, l2 - l3 - m1, l1 - l3 + m2)
    last = min(l1 + l2 - l3, l1 - m1, l2 + m2)
    total = 0.0
    for t in range(first, last + 1):
        denominator = (
            factorial(t)
            * factorial(l3 - l2 + t + m1)
            * factorial(l3 - l1 + t - m2)
            * factorial(l1 + l2 - l3 - t)
            * factorial(l1 - t - m1)
            * factorial(l2 - t + m2)
        )
        total += (-1) ** t / denominator
    triangle = (
        factorial(l1 + l2 - l3) * factorial(l1 - l2 + l3) * factorial(-l1 + l2 + l3) / factorial(l1 + l2 + l3 + 1)
    )
    heights = 1
    for degree, order in ((l1, m1), (l2, m2), (l3, m3)):
        heights *= factorial(degree + order) * factorial(degree - order)
    return float((-1) ** (l1 - l2 - m3) * sqrt(triangle * heights) * total)


def clebsch_gordan(l1: int, m1: int, l2: int, m2: int, l3: int, m3: int) -> float:
    """Clebsch-Gordan coefficient <l1 m1 l2 m2 | l3 m3> from the 3j symbol."""
    return float((-1) ** (l1 - l2 + m3) * sqrt(2 * l3 + 1) * wigner_3j(l1, l2, l3, m1, m2, -m3))


@cache
def spherical_basis(degree: int) -> Tensor:
    """Orthonormal spherical basis tensors of rank l, complex128 (2l+1, 3, …, 3), ordered m = -l … l."""
    if degree == 0:
        return torch.ones(1, dtype=torch.complex128)
    root = 1 / sqrt(2)
    unit = torch.tensor([[root, -1j * root, 0], [0, 0, 1], [-root, -1j * root, 0]], dtype=torch.complex128)
    if degree == 1:
        return unit
    lower = spherical_basis(degree - 1)
    basis = torch.zeros(2 * degree + 1, *(3,) * degree, dtype=torch.complex128)
    for m in range(-degree, degree + 1):
        for step in (-1, 0, 1):
            if abs(m - step) <= degree - 1:
                weight = clebsch_gordan(degree - 1, m - step, 1, step, degree, m)
                basis[m + degree] += weight * torch.tensordot(lower[m - step + degree - 1], unit[step + 1], dims=0)
    return basis


@cache
def coupling_matrix(l1: int, l2: int, l3: int) -> Tensor:
    """Clebsch-Gordan coefficients as a complex128 tensor (2l1+1, 2l2+1, 2l3+1)."""
    table = torch.zeros(2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1, dtype=torch.complex128)
    for m1 in range(-l1, l1 + 1):
        for m2 in range(-l2, l2 + 1):
            if abs(m1 + m2) <= l3:
                table[m1 + l1, m2 + l2, m1 + m2 + l3] = clebsch_gordan(l1, m1, l2, m2, l3, m1 + m2)
    return table


def couple(a: Tensor, b: Tensor, l1: int, l2: int, l3: int) -> Tensor:
    """Clebsch-Gordan coupling of full STF tensors (samples, 3, …, 3) to a full tensor of rank l3, float64.

    For odd l1+l2-l3 the spherical result is purely imaginary; the factor i is taken out so that the map is real.
    """
    spherical_a = _to_spherical(a, l1)
    spherical_b = _to_spherical(b, l2)
    spherical_c = torch.einsum("na,nb,abc->nc", spherical_a, spherical_b, coupling_matrix(l1, l2, l3))
    flat = spherical_c @ spherical_basis(l3).reshape(2 * l3 + 1, -1)
    cartesian = flat if (l1 + l2 - l3) % 2 == 0 else flat * 1j
    return cartesian.real.reshape(-1, *(3,) * l3)


def _to_spherical(tensor: Tensor, degree: int) -> Tensor:
    basis = spherical_basis(degree).reshape(2 * degree + 1, -1)
    return tensor.reshape(tensor.shape[0], -1).to(torch.complex128) @ basis.conj().T
