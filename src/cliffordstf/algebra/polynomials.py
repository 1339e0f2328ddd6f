"""Exact arithmetic on homogeneous polynomials in x, y, z with rational coefficients.

A symmetric tensor T of rank l and the polynomial T(x) = T_{i1..il} x_i1 .. x_il carry the same information, and T is
traceless exactly when its polynomial is harmonic. Symmetrising, contracting and removing traces are then products,
derivatives and a projection that is known in closed form. Everything that the coupling table needs is generated with
the few functions below, in `fractions.Fraction`, for any degree.
"""

from fractions import Fraction
from math import factorial
from typing import TypeAlias

Exponents: TypeAlias = tuple[int, int, int]
"""Powers of x, y and z in a monomial."""

Polynomial: TypeAlias = dict[Exponents, Fraction]
"""Monomial -> coefficient. Zero coefficients are never stored, so the zero polynomial is the empty dict."""


def monomials(degree: int) -> list[Exponents]:
    """All monomials of one degree, in the order of their sorted index strings (xx, xy, xz, yy, yz, zz)."""
    return [(a, b, degree - a - b) for a in range(degree, -1, -1) for b in range(degree - a, -1, -1)]


def multinomial(exponents: Exponents) -> int:
    """How many index strings sort to this monomial: l! / (a! b! c!)."""
    a, b, c = exponents
    return factorial(a + b + c) // (factorial(a) * factorial(b) * factorial(c))


def add(*terms: Polynomial) -> Polynomial:
    """Sum of polynomials."""
    total: Polynomial = {}
    for term in terms:
        for exponents, value in term.items():
            total[exponents] = total.get(exponents, Fraction(0)) + value
    return {exponents: value for exponents, value in total.items() if value}


def scale(polynomial: Polynomial, factor: Fraction | int) -> Polynomial:
    """Polynomial times a number."""
    return {exponents: value * factor for exponents, value in polynomial.items()} if factor else {}


def multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    """Product of two polynomials."""
    total: Polynomial = {}
    for (a, b, c), x in left.items():
        for (d, e, f), y in right.items():
            key = (a + d, b + e, c + f)
            total[key] = total.get(key, Fraction(0)) + x * y
    return {exponents: value for exponents, value in total.items() if value}


def coordinate(axis: int) -> Polynomial:
    """The polynomial x, y or z."""
    return {(int(axis == 0), int(axis == 1), int(axis == 2)): Fraction(1)}


def differentiate(polynomial: Polynomial, orders: Exponents) -> Polynomial:
    """Partial derivative of the given order along x, y and z."""
    result: Polynomial = {}
    for exponents, value in polynomial.items():
        if any(power < order for power, order in zip(exponents, orders, strict=True)):
            continue
        factor = 1
        for power, order in zip(exponents, orders, strict=True):
            factor *= factorial(power) // factorial(power - order)
        a, b, c = (power - order for power, order in zip(exponents, orders, strict=True))
        result[a, b, c] = value * factor
    return result


def laplacian(polynomial: Polynomial) -> Polynomial:
    """Sum of the second derivatives; zero exactly for the polynomial of a traceless tensor."""
    return add(*(differentiate(polynomial, axis) for axis in ((2, 0, 0), (0, 2, 0), (0, 0, 2))))


def harmonic_projection(polynomial: Polynomial, degree: int) -> Polynomial:
    """Traceless part of a homogeneous polynomial of the given degree.

    p - r² Δp / (2 (2l-1)) + r⁴ Δ²p / (2·4 (2l-1)(2l-3)) - …: each order divides by the next of 2j (2l+1-2j). The first
    coefficient is the paper's detracing rule 1/(2l-1) per Kronecker delta.
    """
    r2: Polynomial = {(2, 0, 0): Fraction(1), (0, 2, 0): Fraction(1), (0, 0, 2): Fraction(1)}
    total, power, trace, coefficient = polynomial, {(0, 0, 0): Fraction(1)}, polynomial, Fraction(1)
    for order in range(1, degree // 2 + 1):
        trace, power = laplacian(trace), multiply(power, r2)
        coefficient /= -2 * order * (2 * degree + 1 - 2 * order)
        total = add(total, scale(multiply(power, trace), coefficient))
    return total
