"""Symmetric-traceless (STF) tensors of any rank, stored by 2l+1 of their Cartesian components.

Stored are the components whose sorted index string holds at most one z: xx, xy, xz, yy, yz at rank 2 and xxx, xxy,
xxz, xyy, xyz, yyy, yyz at rank 3. The others follow from the vanishing trace, T_..zz = -T_..xx - T_..yy. Ranks 0 and 1
are scalars and vectors.

Feature arguments have shape (..., 2l+1, channels), full tensors (..., 3, …, 3, channels).
"""

from fractions import Fraction
from functools import cache
from itertools import product
from math import sqrt

import torch
from torch import Tensor

from cliffordstf.algebra.polynomials import Exponents, Polynomial, harmonic_projection, monomials, multinomial


@cache
def stored_exponents(degree: int) -> tuple[Exponents, ...]:
    """Powers of (x, y, z) of the stored components, in storage order."""
    return tuple(exponents for exponents in monomials(degree) if exponents[2] <= 1)


@cache
def component_names(degree: int) -> tuple[str, ...]:
    """Index strings of the stored components, for example ('xx', 'xy', 'xz', 'yy', 'yz')."""
    return tuple("x" * a + "y" * b + "z" * c for a, b, c in stored_exponents(degree))


@cache
def expansion(degree: int) -> dict[Exponents, tuple[Fraction, ...]]:
    """Every Cartesian component as a combination of the 2l+1 stored ones."""
    stored = stored_exponents(degree)
    rows = {exponents: tuple(Fraction(int(other == exponents)) for other in stored) for exponents in stored}
    # monomials() lists growing powers of z last within each power of x, so sort by them: each step needs lower ones.
    for a, b, c in sorted(monomials(degree), key=lambda exponents: exponents[2]):
        if c >= 2:
            first, second = rows[a + 2, b, c - 2], rows[a, b + 2, c - 2]
            rows[a, b, c] = tuple(-u - v for u, v in zip(first, second, strict=True))
    return rows


def basis_polynomial(degree: int, component: int) -> Polynomial:
    """Harmonic polynomial of the tensor whose stored components are all zero but one."""
    return {
        exponents: row[component] * multinomial(exponents)
        for exponents, row in expansion(degree).items()
        if row[component]
    }


def stored_components(polynomial: Polynomial, degree: int) -> tuple[Fraction, ...]:
    """Stored components of the tensor that belongs to a harmonic polynomial."""
    return tuple(
        polynomial.get(exponents, Fraction(0)) / multinomial(exponents) for exponents in stored_exponents(degree)
    )


@cache
def gram_matrix(degree: int) -> tuple[tuple[Fraction, ...], ...]:
    """Frobenius inner products of the storage basis: <A, B> = A_stored · G · B_stored."""
    dims = range(2 * degree + 1)
    rows = expansion(degree)
    return tuple(
        tuple(sum((multinomial(key) * row[i] * row[j] for key, row in rows.items()), Fraction(0)) for j in dims)
        for i in dims
    )


@cache
@torch.inference_mode(False)
def gram(degree: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """`gram_matrix` as a constant tensor (2l+1, 2l+1)."""
    return torch.tensor([[float(value) for value in row] for row in gram_matrix(degree)], dtype=dtype, device=device)


@cache
def _expansion_rows(degree: int) -> list[list[float]]:
    rows = expansion(degree)
    table = []
    for indices in product(range(3), repeat=degree):
        key = (indices.count(0), indices.count(1), indices.count(2))
        table.append([float(value) for value in rows[key]])
    return table


def to_cartesian(components: Tensor, degree: int) -> Tensor:
    """Full symmetric-traceless tensor (..., 3, …, 3, channels) from its stored components (..., 2l+1, channels)."""
    matrix = components.new_tensor(_expansion_rows(degree))
    full = matrix @ components
    return full.reshape(*components.shape[:-2], *(3,) * degree, components.shape[-1])


def from_cartesian(tensor: Tensor, degree: int) -> Tensor:
    """Stored components (..., 2l+1, channels) of the STF part of a full tensor (..., 3, …, 3, channels).

    The tensor need not be symmetric or traceless: this is the orthogonal projection onto those that are.
    """
    flat = tensor.reshape(*tensor.shape[: tensor.ndim - 1 - degree], 3**degree, tensor.shape[-1])
    return tensor.new_tensor(_projection_rows(degree)) @ flat


@cache
def _projection_rows(degree: int) -> list[list[float]]:
    """Projection matrix (2l+1, 3^l): column j is the STF part of the unit tensor with index string j."""
    columns = []
    for indices in product(range(3), repeat=degree):
        key = (indices.count(0), indices.count(1), indices.count(2))
        harmonic = harmonic_projection({key: Fraction(1)}, degree)
        columns.append([float(value) for value in stored_components(harmonic, degree)])
    return [list(row) for row in zip(*columns, strict=True)]


def frobenius_squared(components: Tensor, degree: int) -> Tensor:
    """Squared Frobenius norm (..., channels) of STF tensors (..., 2l+1, channels)."""
    matrix = gram(degree, components.dtype, components.device)
    return (components * (matrix @ components)).sum(dim=-2)


@cache
def _power_terms(degree: int) -> tuple[tuple[tuple[Exponents, float], ...], ...]:
    """Each stored component of STF(v ⊗ … ⊗ v) as a polynomial in v.

    Polarisation: the component T_abc of v⊗…⊗v minus traces is the harmonic projection of x^a y^b z^c, read at v.
    """
    return tuple(
        tuple((key, float(value)) for key, value in harmonic_projection({exponents: Fraction(1)}, degree).items())
        for exponents in stored_exponents(degree)
    )


def stf_power(vectors: Tensor, degree: int) -> Tensor:
    """STF(v ⊗ … ⊗ v), the degree-l tensor of a direction.

    Args:
        vectors: (..., 3), any length.
        degree: Rank l of the result.

    Returns:
        (..., 2l+1), polynomial of degree l in the vectors.
    """
    if degree == 0:
        return torch.ones_like(vectors[..., :1])
    if degree == 1:
        return vectors
    powers = [[torch.ones_like(vectors[..., 0])] for _ in range(3)]
    for axis in range(3):
        for _ in range(degree):
            powers[axis].append(powers[axis][-1] * vectors[..., axis])
    components = []
    for terms in _power_terms(degree):
        total = torch.zeros_like(vectors[..., 0])
        for (a, b, c), value in terms:
            total = total + value * (powers[0][a] * powers[1][b] * powers[2][c])
        components.append(total)
    return torch.stack(components, dim=-1)


@cache
def _power_monomials(lmax: int) -> tuple[Exponents, ...]:
    """Monomials of all degrees up to `lmax`."""
    return tuple(exponents for degree in range(lmax + 1) for exponents in monomials(degree))


@cache
@torch.inference_mode(False)
def power_polynomials(lmax: int, unit: bool) -> tuple[tuple[Exponents, ...], Tensor]:
    """STF(v ⊗ … ⊗ v) of all degrees 0 … lmax as polynomials of v.

    Args:
        lmax: Highest degree.
        unit: Scale degree l so that for unit vectors its squared Frobenius norm is 2l+1, one per component.

    Returns:
        The monomials by their exponents, low degrees first, and the coefficients (monomials, 4, (lmax+1)²) of the
        tensors and of their slopes along the three axes, float64.
    """
    keys = _power_monomials(lmax)
    place = {key: index for index, key in enumerate(keys)}
    table = torch.zeros(len(keys), 4, (lmax + 1) ** 2, dtype=torch.float64)
    for degree in range(lmax + 1):
        scale = (2 * degree + 1) ** 0.5 / direction_norm(degree) if unit else 1.0
        for index, terms in enumerate(_power_terms(degree)):
            component = degree**2 + index
            for key, value in terms:
                table[place[key], 0, component] += scale * value
                for axis in range(3):
                    if key[axis]:
                        x, y, z = (power - int(other == axis) for other, power in enumerate(key))
                        table[place[x, y, z], 1 + axis, component] += scale * value * key[axis]
    return keys, table


@cache
@torch.inference_mode(False)
def _power_matrices(lmax: int, unit: bool, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Exponents (3, monomials) and coefficients (monomials, 4, (lmax+1)²) of the tensors and their three slopes."""
    keys, table = power_polynomials(lmax, unit)
    return torch.tensor(keys, device=device).T.contiguous(), table.to(dtype=dtype, device=device)


def stf_powers(vectors: Tensor, lmax: int, unit: bool) -> tuple[Tensor, Tensor]:
    """STF(v ⊗ … ⊗ v) for all degrees 0 … lmax side by side, and its derivative with respect to v.

    Args:
        vectors: (rows, 3).
        lmax: Highest degree.
        unit: Scale degree l so that for unit vectors its squared Frobenius norm is 2l+1, one per component.

    Returns:
        Tensors (rows, (lmax+1)²) and derivatives (rows, 3, (lmax+1)²).
    """
    exponents, matrices = _power_matrices(lmax, unit, vectors.dtype, vectors.device)
    powers = [torch.ones_like(vectors)]
    for _ in range(lmax):
        powers.append(powers[-1] * vectors)
    x, y, z = torch.stack(powers, dim=2).unbind(1)
    columns = x.index_select(1, exponents[0]) * y.index_select(1, exponents[1]) * z.index_select(1, exponents[2])
    results = (columns @ matrices.flatten(1)).unflatten(1, (4, -1))
    return results[:, 0], results[:, 1:]


def direction_norm(degree: int) -> float:
    """Frobenius norm of STF(n ⊗ … ⊗ n) for a unit vector n: sqrt(l! / (2l-1)!!)."""
    squared = Fraction(1)
    for step in range(1, degree + 1):
        squared *= Fraction(step, 2 * step - 1)
    return sqrt(squared)
