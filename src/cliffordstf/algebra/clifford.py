"""The geometric algebra Cl(3,0): its Cayley table and the few maps that the model needs.

A multivector has shape (..., 8, channels) in the basis 1, e1, e2, e3, e12, e13, e23, e123. A grade-restricted
multivector is the same tensor with zeros elsewhere; `geometric_product` can skip grades that are known to vanish.
"""

from functools import cache

import torch
from torch import Tensor

BLADES: tuple[tuple[int, ...], ...] = ((), (1,), (2,), (3,), (1, 2), (1, 3), (2, 3), (1, 2, 3))
GRADE_OF: tuple[int, ...] = tuple(len(blade) for blade in BLADES)
GRADE_SLICES: tuple[slice, ...] = (slice(0, 1), slice(1, 4), slice(4, 7), slice(7, 8))
HODGE: tuple[tuple[int, int], ...] = ((2, +1), (1, -1), (0, +1))
"""Axial vector of a bivector (b12, b13, b23): component k is sign · b[index]. ★e12 = e3, ★e13 = -e2, ★e23 = e1."""


def blade_product(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Product of two basis blades: the resulting blade and its sign, from e_i e_j = -e_j e_i and e_i e_i = 1."""
    factors, sign = [*left, *right], 1
    for end in range(len(factors) - 1, 0, -1):
        for index in range(end):
            if factors[index] > factors[index + 1]:
                factors[index], factors[index + 1] = factors[index + 1], factors[index]
                sign = -sign
    blade: list[int] = []
    for factor in factors:
        if blade and blade[-1] == factor:
            blade.pop()
        else:
            blade.append(factor)
    return tuple(blade), sign


@cache
def cayley_table() -> tuple[tuple[tuple[int, int], ...], ...]:
    """Row a, column b: (index of the blade of e_a e_b, sign). All 64 entries of the algebra."""
    rows = []
    for left in BLADES:
        row = []
        for right in BLADES:
            blade, sign = blade_product(left, right)
            row.append((BLADES.index(blade), sign))
        rows.append(tuple(row))
    return tuple(rows)


def geometric_product(
    left: Tensor,
    right: Tensor,
    left_grades: tuple[int, ...] = (0, 1, 2, 3),
    right_grades: tuple[int, ...] = (0, 1, 2, 3),
    grades: tuple[int, ...] = (0, 1, 2, 3),
) -> Tensor:
    """Geometric product of multivectors (..., 8, channels), restricted to the grades that are asked for.

    Args:
        left, right: Multivectors with broadcastable leading shapes.
        left_grades, right_grades: Grades of the operands that may be non-zero; the others are not read.
        grades: Grades of the result that are wanted; the others come out as zeros.
    """
    shape = torch.broadcast_shapes(left.shape, right.shape)
    parts: list[Tensor | None] = [None] * 8
    for a, row in enumerate(cayley_table()):
        if GRADE_OF[a] not in left_grades:
            continue
        for b, (target, sign) in enumerate(row):
            if GRADE_OF[b] not in right_grades or GRADE_OF[target] not in grades:
                continue
            term = left[..., a, :] * right[..., b, :]
            previous = parts[target]
            if previous is None:
                parts[target] = term if sign > 0 else -term
            else:
                parts[target] = previous + term if sign > 0 else previous - term
    zero = left.new_zeros(shape[:-2] + shape[-1:])
    return torch.stack([zero if part is None else part for part in parts], dim=-2)


def _signs_by_grade(multivector: Tensor, signs: tuple[int, int, int, int]) -> Tensor:
    factors = multivector.new_tensor([signs[grade] for grade in GRADE_OF])
    return multivector * factors[:, None]


def reverse(multivector: Tensor) -> Tensor:
    """Reverse: the factors of every blade in the opposite order, so grades 2 and 3 change sign."""
    return _signs_by_grade(multivector, (1, 1, -1, -1))


def grade_involution(multivector: Tensor) -> Tensor:
    """Main involution, which is inversion of space: grades 1 and 3 change sign."""
    return _signs_by_grade(multivector, (1, -1, 1, -1))


def grade(multivector: Tensor, k: int) -> Tensor:
    """View of the components (..., dims, channels) of grade k."""
    return multivector[..., GRADE_SLICES[k], :]


def grade_norm_squared(multivector: Tensor, k: int) -> Tensor:
    """Squared norm (..., channels) of grade k: the scalar part of X X~, a sum of squares in Cl(3,0)."""
    return grade(multivector, k).square().sum(dim=-2)


def bivector_to_axial(bivector: Tensor) -> Tensor:
    """Hodge dual of bivectors (..., 3, channels): the axial vector, so that ★(u∧v) = u x v."""
    return torch.stack([sign * bivector[..., index, :] for index, sign in HODGE], dim=-2)


def axial_to_bivector(axial: Tensor) -> Tensor:
    """Inverse of `bivector_to_axial` (the map is its own inverse in this component order)."""
    return bivector_to_axial(axial)


def hodge_dual(multivector: Tensor) -> Tensor:
    """Hodge dual X I^-1 of a multivector (..., 8, channels): swaps grades k and 3-k."""
    inverse_pseudoscalar = torch.zeros_like(multivector)
    inverse_pseudoscalar[..., 7, :] = -1
    return geometric_product(multivector, inverse_pseudoscalar, right_grades=(3,))


def rotor(axis: Tensor, angle: Tensor) -> Tensor:
    """Rotor exp(-angle B/2) for the rotation about unit axes (..., 3) by angles (...), shape (..., 8, 1)."""
    half = 0.5 * angle[..., None]
    result = torch.zeros(*axis.shape[:-1], 8, dtype=axis.dtype, device=axis.device)
    result[..., :1] = half.cos()
    result[..., 4:7] = -half.sin() * axial_to_bivector(axis[..., None])[..., 0]
    return result[..., None]


def apply_rotor(rotor_: Tensor, multivector: Tensor) -> Tensor:
    """Sandwich product R X R~ of multivectors (..., 8, channels) with a unit rotor (..., 8, 1)."""
    left = geometric_product(rotor_, multivector, left_grades=(0, 2))
    return geometric_product(left, reverse(rotor_), right_grades=(0, 2))
