"""The coupling table: every closed-form bilinear map between tracks, with exact rational coefficients.

For degrees l1, l2 -> l3 there is one equivariant bilinear map up to a factor. Its closed form, for symmetric-traceless
A and B of ranks l1 and l2, is

- if l1+l2-l3 = 2k is even: contract k index pairs of A and B, symmetrise what is left, remove the traces;
- if l1+l2-l3 = 2k+1 is odd: contract k pairs, tie one index of each to a Levi-Civita symbol, then the same.

STF2(u,v), S·v, STF3(S,v), T·v, <S,S'> and the dot and cross products of the geometric product are its special cases.
One sign differs from the paper: S×v is ε_ikl S_kj v_l here, as in u×v; the paper writes ε_ikl v_k S_lj.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import permutations
from math import factorial
from typing import TypeAlias

import torch
from torch import Tensor

from cliffordstf.algebra import clifford
from cliffordstf.algebra.polynomials import (
    Exponents,
    Polynomial,
    add,
    coordinate,
    differentiate,
    harmonic_projection,
    monomials,
    multinomial,
    multiply,
    scale,
)
from cliffordstf.algebra.stf import basis_polynomial, gram, stored_components
from cliffordstf.algebra.tracks import BIVECTOR, GRADES, Track

Term: TypeAlias = tuple[int, int, int, Fraction]
"""(component of A, component of B, component of the result, coefficient)."""

_LETTERS = "svSTQ"
_LEVI_CIVITA = tuple(((p, q, r), (q - p) * (r - p) * (r - q) // 2) for p, q, r in permutations(range(3)))


@dataclass(frozen=True)
class Coupling:
    """One bilinear map between degrees, in the STF storage basis.

    Attributes:
        l1, l2, l3: Degrees of the two operands and of the result.
        name: The formula, for example `STF2(u,v)`.
        pseudo: True if the formula holds a Levi-Civita symbol: it maps true tensors to a pseudotensor.
        terms: Its non-zero coefficients.
    """

    l1: int
    l2: int
    l3: int
    name: str
    pseudo: bool
    terms: tuple[Term, ...]

    def tensor(self, dtype: torch.dtype = torch.float64, device: torch.device | None = None) -> Tensor:
        """Dense coefficients (2l1+1, 2l2+1, 2l3+1)."""
        return _dense(self.terms, (2 * self.l1 + 1, 2 * self.l2 + 1, 2 * self.l3 + 1), dtype, device)


@dataclass(frozen=True)
class TrackCoupling:
    """A coupling between named tracks, in the storage basis of the tracks (bivectors as e12, e13, e23).

    Attributes:
        a, b, c: Operand tracks and the track of the result.
        name: The formula, from the degree table.
        conserves_parity: Whether an O(3) model may use it.
        terms: Its non-zero coefficients.
    """

    a: Track
    b: Track
    c: Track
    name: str
    conserves_parity: bool
    terms: tuple[Term, ...]

    def tensor(self, dtype: torch.dtype = torch.float64, device: torch.device | None = None) -> Tensor:
        """Dense coefficients (dims of a, dims of b, dims of c)."""
        return _dense(self.terms, (self.a.dims, self.b.dims, self.c.dims), dtype, device)


def _dense(
    terms: tuple[Term, ...], shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device | None
) -> Tensor:
    tensor = torch.zeros(shape, dtype=dtype, device=device)
    for i, j, k, value in terms:
        tensor[i, j, k] = float(value)
    return tensor


def is_admissible(l1: int, l2: int, l3: int) -> bool:
    """Triangle rule for degrees."""
    return abs(l1 - l2) <= l3 <= l1 + l2


@cache
def coupling(l1: int, l2: int, l3: int) -> Coupling:
    """Generate one entry of the degree table."""
    if not is_admissible(l1, l2, l3):
        raise ValueError(f"no coupling {l1} x {l2} -> {l3}: degrees break the triangle rule")
    contractions, odd = divmod(l1 + l2 - l3, 2)
    terms: list[Term] = []
    for i in range(2 * l1 + 1):
        for j in range(2 * l2 + 1):
            contracted = _contract(basis_polynomial(l1, i), l1, basis_polynomial(l2, j), l2, contractions, bool(odd))
            harmonic = harmonic_projection(contracted, l3)
            terms += [(i, j, k, value) for k, value in enumerate(stored_components(harmonic, l3)) if value]
    return Coupling(l1, l2, l3, _name(l1, l2, l3, contractions, bool(odd)), bool(odd), tuple(terms))


def _contract(a: Polynomial, l1: int, b: Polynomial, l2: int, contractions: int, odd: bool) -> Polynomial:
    """Polynomial of A contracted k times with B, tied by a Levi-Civita symbol if `odd`, before trace removal.

    A_{i..m1..mk} x_i.. is (l-k)!/l! times the k-fold derivative of A(x).
    """
    open_a, open_b = l1 - contractions - odd, l2 - contractions - odd
    if not odd:
        total = _contract_derivatives(a, b, contractions)
    else:
        parts = []
        for (p, q, r), sign in _LEVI_CIVITA:
            inner = _contract_derivatives(_gradient(a, q), _gradient(b, r), contractions)
            parts.append(scale(multiply(coordinate(p), inner), sign))
        total = add(*parts)
    return scale(total, Fraction(factorial(open_a) * factorial(open_b), factorial(l1) * factorial(l2)))


def _gradient(polynomial: Polynomial, axis: int) -> Polynomial:
    orders: Exponents = (int(axis == 0), int(axis == 1), int(axis == 2))
    return differentiate(polynomial, orders)


def _contract_derivatives(a: Polynomial, b: Polynomial, order: int) -> Polynomial:
    return add(
        *(scale(multiply(differentiate(a, key), differentiate(b, key)), multinomial(key)) for key in monomials(order))
    )


def _name(l1: int, l2: int, l3: int, contractions: int, odd: bool) -> str:
    a = _LETTERS[l1] if l1 < len(_LETTERS) else f"A{l1}"
    b = _LETTERS[l2] if l2 < len(_LETTERS) else f"B{l2}"
    if l1 == l2:
        a, b = ("u", "v") if l1 == 1 else (a, f"{b}'")
    if min(l1, l2) == 0:
        return f"{a} {b}"
    if l3 == 0:
        return f"{a}·{b}" if l1 == 1 else f"<{a},{b}>"
    operator = ("", "·", ":", "⋮", "⁞")[contractions] + ("×" if odd else "")
    symmetric_as_it_stands = l3 == 1 or (not odd and contractions == min(l1, l2))
    if symmetric_as_it_stands or ({l1, l2} == {1, 2} and l3 == 2):
        return f"{a}{operator}{b}"
    return f"STF{l3}({a}{operator or ','}{b})"


@cache
def unit_scale(l1: int, l2: int, l3: int) -> float:
    """Factor by which a coupling takes independent operands of unit variance to a result of unit variance.

    Variance is per orthonormal component: a random tensor of degree l has unit variance if its mean squared Frobenius
    norm is 2l+1. The square of the factor is rational; models apply it as a constant of the path.
    """
    table = coupling(l1, l2, l3).tensor()
    gram_1, gram_2, gram_3 = (gram(degree, table.dtype, table.device) for degree in (l1, l2, l3))
    mean_square = torch.einsum(
        "abc,xyz,ax,by,cz->", table, table, torch.linalg.inv(gram_1), torch.linalg.inv(gram_2), gram_3
    )
    return float((2 * l3 + 1) / mean_square) ** 0.5


def coupling_table(lmax: int) -> list[Coupling]:
    """Every admissible ordered triple with all three degrees up to `lmax` (34 entries for 3, 65 for 4)."""
    degrees = range(lmax + 1)
    return [coupling(l1, l2, l3) for l1 in degrees for l2 in degrees for l3 in degrees if is_admissible(l1, l2, l3)]


@cache
def track_coupling(a: Track, b: Track, c: Track) -> TrackCoupling:
    """The coupling of three tracks, with bivectors turned from axial vectors to their storage components."""
    entry = coupling(a.degree, b.degree, c.degree)
    terms = tuple(
        (i, j, k, value * sign_i * sign_j * sign_k)
        for x, y, z, value in entry.terms
        for (i, sign_i), (j, sign_j), (k, sign_k) in [(_stored(a, x), _stored(b, y), _stored(c, z))]
    )
    return TrackCoupling(a, b, c, entry.name, a.parity * b.parity == c.parity, terms)


def _stored(track: Track, component: int) -> tuple[int, int]:
    """Storage index and sign of a component of the degree table."""
    return clifford.HODGE[component] if track == BIVECTOR else (component, 1)


def admissible_couplings(
    left: tuple[Track, ...], right: tuple[Track, ...], out: tuple[Track, ...], parity: bool = True
) -> list[TrackCoupling]:
    """All couplings from one choice of tracks and another into a third; only parity-conserving ones if `parity`."""
    return [
        track_coupling(a, b, c)
        for a in left
        for b in right
        for c in out
        if is_admissible(a.degree, b.degree, c.degree) and (not parity or a.parity * b.parity == c.parity)
    ]


@cache
def geometric_product_couplings() -> tuple[tuple[TrackCoupling, int], ...]:
    """The grades of the geometric product as entries of the coupling table, each with its sign.

    Found by comparing the Cayley table with the table of couplings; every non-zero block must match one entry.
    """
    found = []
    for a in GRADES:
        for b in GRADES:
            for c in GRADES:
                block = _cayley_block(a, b, c)
                if block:
                    entry = track_coupling(a, b, c)
                    signs = [sign for sign in (1, -1) if block == {(i, j, k): sign * v for i, j, k, v in entry.terms}]
                    if len(signs) != 1:
                        raise ArithmeticError(f"the Cayley table disagrees with {entry.name} for {a.name} {b.name}")
                    found.append((entry, signs[0]))
    return tuple(found)


def _cayley_block(a: Track, b: Track, c: Track) -> dict[tuple[int, int, int], Fraction]:
    grade_a, grade_b, grade_c = (track.grade for track in (a, b, c))
    assert grade_a is not None
    assert grade_b is not None
    assert grade_c is not None
    start_a, start_b, start_c = (clifford.GRADE_SLICES[g].start for g in (grade_a, grade_b, grade_c))
    block = {}
    for i in range(a.dims):
        for j in range(b.dims):
            target, sign = clifford.cayley_table()[start_a + i][start_b + j]
            if clifford.GRADE_OF[target] == grade_c:
                block[i, j, target - start_c] = Fraction(sign)
    return block
