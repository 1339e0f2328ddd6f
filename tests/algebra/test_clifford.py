import pytest
import torch

from cliffordstf.algebra import clifford
from cliffordstf.algebra.actions import track_action
from cliffordstf.algebra.tracks import GRADES, Layout
from tests.equivariance import check_equivariance, tracks


def blade(index: int) -> torch.Tensor:
    return torch.eye(8, dtype=torch.float64)[index][:, None]


def random_multivector(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, 8, 3, generator=generator, dtype=torch.float64)


def test_generators_square_to_one_and_anticommute():
    for i in range(1, 4):
        for j in range(1, 4):
            anticommutator = clifford.geometric_product(blade(i), blade(j)) + clifford.geometric_product(
                blade(j), blade(i)
            )
            assert torch.equal(anticommutator, 2.0 * (i == j) * blade(0))


def test_product_is_associative(generator):
    a, b, c = (random_multivector(generator, 5) for _ in range(3))
    left = clifford.geometric_product(clifford.geometric_product(a, b), c)
    right = clifford.geometric_product(a, clifford.geometric_product(b, c))
    torch.testing.assert_close(left, right, rtol=0, atol=1e-13)


def test_pseudoscalar_squares_to_minus_one():
    assert torch.equal(clifford.geometric_product(blade(7), blade(7)), -blade(0))


@pytest.mark.parametrize("left", [(0,), (1,), (0, 1), (0, 2), (0, 1, 2, 3)])
@pytest.mark.parametrize("wanted", [(0,), (1, 2), (0, 1, 2, 3)])
def test_grade_sparse_product_equals_full_one(generator, left, wanted):
    a, b = random_multivector(generator, 4), random_multivector(generator, 4)
    masked = torch.zeros_like(a)
    for k in left:
        masked[..., clifford.GRADE_SLICES[k], :] = clifford.grade(a, k)
    full = clifford.geometric_product(masked, b)
    sparse = clifford.geometric_product(a, b, left_grades=left, grades=wanted)
    for k in range(4):
        expected = clifford.grade(full, k) if k in wanted else torch.zeros_like(clifford.grade(full, k))
        torch.testing.assert_close(clifford.grade(sparse, k), expected, rtol=0, atol=1e-14)


def test_reverse_reverses_products(generator):
    a, b = random_multivector(generator, 4), random_multivector(generator, 4)
    left = clifford.reverse(clifford.geometric_product(a, b))
    right = clifford.geometric_product(clifford.reverse(b), clifford.reverse(a))
    torch.testing.assert_close(left, right, rtol=0, atol=1e-13)


def test_hodge_signs_of_the_paper():
    dual = {4: (3, 1), 5: (2, -1), 6: (1, 1)}  # ★e12 = e3, ★e13 = -e2, ★e23 = e1
    for source, (target, sign) in dual.items():
        assert torch.equal(clifford.hodge_dual(blade(source)), sign * blade(target))


def test_hodge_of_wedge_is_cross_product(generator):
    u, v = (torch.randn(6, 3, 2, generator=generator, dtype=torch.float64) for _ in range(2))
    a, b = (torch.cat([torch.zeros(6, 1, 2), x, torch.zeros(6, 4, 2)], 1).double() for x in (u, v))
    wedge = clifford.grade(clifford.geometric_product(a, b), 2)
    expected = torch.linalg.cross(u, v, dim=1)
    torch.testing.assert_close(clifford.bivector_to_axial(wedge), expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(clifford.axial_to_bivector(expected), wedge, rtol=0, atol=1e-14)


def test_grade_norm_is_scalar_part_of_x_reverse_x(generator):
    x = random_multivector(generator, 4)
    for k in range(4):
        part = torch.zeros_like(x)
        part[..., clifford.GRADE_SLICES[k], :] = clifford.grade(x, k)
        scalar = clifford.geometric_product(part, clifford.reverse(part))[..., 0, :]
        torch.testing.assert_close(clifford.grade_norm_squared(x, k), scalar, rtol=0, atol=1e-13)


def test_rotor_rotates_every_grade(generator):
    axis = torch.randn(3, generator=generator, dtype=torch.float64)
    axis /= axis.norm()
    angle = torch.tensor(0.83, dtype=torch.float64)
    r = clifford.rotor(axis, angle)
    k = torch.tensor([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]], dtype=torch.float64)
    matrix = torch.linalg.matrix_exp(angle * k)
    x = random_multivector(generator, 4)
    rotated = clifford.apply_rotor(r, x)
    for track in GRADES:
        expected = track_action(track, matrix) @ clifford.grade(x, track.grade)
        torch.testing.assert_close(clifford.grade(rotated, track.grade), expected, rtol=0, atol=1e-13)


def test_grade_involution_is_inversion(generator):
    x = random_multivector(generator, 4)
    inverted = clifford.grade_involution(x)
    for track in GRADES:
        expected = track_action(track, -torch.eye(3, dtype=torch.float64)) @ clifford.grade(x, track.grade)
        torch.testing.assert_close(clifford.grade(inverted, track.grade), expected, rtol=0, atol=1e-14)


def test_product_is_equivariant_under_o3(generator):
    multivectors = tracks(Layout(GRADES))
    inputs = [(random_multivector(generator, 4), multivectors) for _ in range(2)]
    check_equivariance(clifford.geometric_product, inputs, multivectors, tolerance=1e-12)
