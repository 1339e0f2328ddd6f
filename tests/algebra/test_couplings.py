from fractions import Fraction
from functools import partial

import pytest
import torch

from cliffordstf.algebra import clifford
from cliffordstf.algebra.couplings import (
    admissible_couplings,
    coupling,
    coupling_table,
    geometric_product_couplings,
    track_coupling,
    unit_scale,
)
from cliffordstf.algebra.stf import frobenius_squared, gram
from cliffordstf.algebra.tracks import BIVECTOR, GRADES, SCALAR, STF2, STF3, TRACKS, VECTOR
from tests import literal
from tests.equivariance import check_equivariance, one_track


def apply(entry, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.einsum("nac,nbc,abk->nkc", a, b, entry.tensor())


def random(degree: int, generator: torch.Generator, n: int = 5) -> torch.Tensor:
    return torch.randn(n, 2 * degree + 1, 2, generator=generator, dtype=torch.float64)


def test_table_is_complete():
    triples = [(c.l1, c.l2, c.l3) for c in coupling_table(3)]
    assert len(triples) == len(set(triples)) == 34
    assert len(coupling_table(4)) == 65


def test_names_of_the_paper():
    names = {(c.l1, c.l2, c.l3): c.name for c in coupling_table(3)}
    expected = {
        (1, 1, 0): "u·v",
        (1, 1, 1): "u×v",
        (1, 1, 2): "STF2(u,v)",
        (2, 1, 1): "S·v",
        (2, 1, 2): "S×v",
        (2, 1, 3): "STF3(S,v)",
        (2, 2, 0): "<S,S'>",
        (3, 1, 2): "T·v",
    }
    assert {key: names[key] for key in expected} == expected
    assert len(set(names.values())) == len(names)


@pytest.mark.parametrize(
    ("degrees", "formula", "sign"),
    [
        ((1, 1, 2), literal.stf2, 1),
        ((2, 1, 1), literal.contract, 1),
        ((2, 1, 2), literal.cross, -1),
        ((2, 1, 3), literal.stf3, 1),
        ((3, 1, 2), literal.contract3, 1),
        ((2, 2, 0), lambda s, t: literal.frobenius(s, t)[:, None], 1),
    ],
)
def test_generated_entries_equal_the_papers_formulas(degrees, formula, sign, generator):
    a, b = random(degrees[0], generator), random(degrees[1], generator)
    torch.testing.assert_close(apply(coupling(*degrees), a, b), sign * formula(a, b), rtol=0, atol=1e-14)


def test_coefficients_are_exact_rationals():
    values = {abs(value) for *_, value in coupling(2, 1, 3).terms}
    assert values <= {Fraction(n, 15) for n in range(1, 16)}
    assert all(isinstance(value, Fraction) for entry in coupling_table(4) for *_, value in entry.terms)


@pytest.mark.parametrize("entry", coupling_table(4), ids=lambda c: f"{c.l1}{c.l2}{c.l3}")
def test_exchange_symmetry(entry, generator):
    a, b = random(entry.l1, generator), random(entry.l2, generator)
    sign = -1 if entry.pseudo else 1
    swapped = apply(coupling(entry.l2, entry.l1, entry.l3), b, a)
    torch.testing.assert_close(apply(entry, a, b), sign * swapped, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "entry",
    admissible_couplings(TRACKS, TRACKS, TRACKS, parity=False),
    ids=lambda c: f"{c.a.name}-{c.b.name}-{c.c.name}",
)
def test_track_couplings_are_equivariant_and_their_parity_label_is_true(entry, generator):
    a, b = random(entry.a.degree, generator), random(entry.b.degree, generator)
    inputs, parity = [(a, one_track(entry.a)), (b, one_track(entry.b))], 1 if entry.conserves_parity else -1
    check_equivariance(partial(apply, entry), inputs, one_track(entry.c, parity), tolerance=1e-11)


def test_the_two_parity_breaking_terms_of_the_paper():
    assert not track_coupling(STF2, VECTOR, STF2).conserves_parity
    assert track_coupling(STF2, BIVECTOR, STF2).conserves_parity
    assert track_coupling(VECTOR, VECTOR, BIVECTOR).conserves_parity


def test_geometric_product_is_a_sum_of_table_entries(generator):
    a, b = (torch.randn(5, 8, 2, generator=generator, dtype=torch.float64) for _ in range(2))
    total = torch.zeros_like(a)
    for entry, sign in geometric_product_couplings():
        ka, kb, kc = entry.a.grade, entry.b.grade, entry.c.grade
        total[:, clifford.GRADE_SLICES[kc]] += sign * apply(entry, clifford.grade(a, ka), clifford.grade(b, kb))
    torch.testing.assert_close(total, clifford.geometric_product(a, b), rtol=0, atol=1e-14)
    torch.testing.assert_close(total, literal.gp(a, b), rtol=0, atol=1e-14)
    assert all(entry.conserves_parity for entry, _ in geometric_product_couplings())
    assert {entry.c for entry, _ in geometric_product_couplings()} == set(GRADES)


def test_admissible_couplings_respect_parity():
    found = {(c.a.name, c.b.name, c.c.name) for c in admissible_couplings((SCALAR, VECTOR), (VECTOR,), TRACKS)}
    assert ("vector", "vector", "bivector") in found
    assert ("vector", "vector", "stf2") in found
    assert ("vector", "vector", "vector") not in found


@pytest.mark.parametrize("degrees", [(1, 1, 0), (1, 1, 2), (2, 1, 3), (2, 2, 2), (3, 2, 1), (3, 3, 4)])
def test_unit_scale_gives_unit_variance(degrees, generator):
    l1, l2, l3 = degrees

    def standard_normal(degree: int) -> torch.Tensor:
        # Orthonormal components from storage ones: x with covariance G^-1.
        factor = torch.linalg.cholesky(torch.linalg.inv(gram(degree, torch.float64, torch.device("cpu"))))
        return factor @ torch.randn(40_000, 2 * degree + 1, 1, generator=generator, dtype=torch.float64)

    out = apply(coupling(l1, l2, l3), standard_normal(l1), standard_normal(l2)) * unit_scale(l1, l2, l3)
    variance = frobenius_squared(out, l3).mean() / (2 * l3 + 1)
    assert abs(float(variance) - 1) < 0.05


def test_no_coupling_outside_the_triangle_rule():
    with pytest.raises(ValueError, match="triangle"):
        coupling(1, 1, 3)
    assert STF3.label == "3-"
