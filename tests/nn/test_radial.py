import itertools
from math import pi

import numpy as np
import pytest
import torch
from torch import Tensor

from cliffordstf.nn.radial import (
    BesselBasis,
    GaussianBasis,
    RadialFunctions,
    cosine_envelope,
    polynomial_envelope,
)
from tests.nn.samples import CUTOFF, check_gradients, made


def distances(count: int = 7, seed: int = 0) -> Tensor:
    """Å, within and beyond the cutoff."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, generator=generator, dtype=torch.float64) * (CUTOFF + 0.4) + 0.3


def functions(**options) -> RadialFunctions:
    settings = {"basis": 8, "cutoff": CUTOFF, "power": 6, "width": 16, "depth": 2, "functions": 4, "layers": 2}
    return made(lambda: RadialFunctions(**{**settings, **options}))


def test_the_polynomial_envelope_is_c2_at_the_cutoff():
    r = torch.tensor([CUTOFF - 1e-9], dtype=torch.float64, requires_grad=True)
    value = polynomial_envelope(r, CUTOFF, 6)
    (slope,) = torch.autograd.grad(value, r, create_graph=True)
    (curvature,) = torch.autograd.grad(slope, r, create_graph=True)
    assert value.abs() < 1e-20
    assert slope.abs() < 1e-15
    assert curvature.abs() < 1e-6
    (third,) = torch.autograd.grad(curvature, r)
    assert third.abs() > 1e-2  # smooth to second order and not further
    assert polynomial_envelope(torch.tensor([0.0, CUTOFF, CUTOFF + 1]), CUTOFF, 6).tolist() == [1, 0, 0]


def test_the_cosine_envelope_is_c1_at_the_cutoff():
    r = torch.tensor([CUTOFF - 1e-9], dtype=torch.float64, requires_grad=True)
    value = cosine_envelope(r, CUTOFF)
    (slope,) = torch.autograd.grad(value, r, create_graph=True)
    (curvature,) = torch.autograd.grad(slope, r)
    assert value.abs() < 1e-15
    assert slope.abs() < 1e-8
    assert curvature.item() == pytest.approx(0.5 * (pi / CUTOFF) ** 2)
    assert cosine_envelope(torch.tensor([0.0, CUTOFF + 1]), CUTOFF).tolist() == [1, 0]


def test_gaussians_have_mean_square_one_at_any_distance():
    r = torch.linspace(0.5, CUTOFF - 0.5, 50, dtype=torch.float64)
    found = GaussianBasis(20, CUTOFF).double()(r)
    assert found.shape == (50, 20)
    assert found.square().mean(dim=1).numpy() == pytest.approx(1, abs=0.06)
    centres = torch.linspace(0, CUTOFF, 20, dtype=torch.float64)
    assert GaussianBasis(20, CUTOFF).double()(centres).argmax(dim=1).tolist() == list(range(20))


def test_bessel_functions_are_those_of_a_spherical_well():
    r = distances()
    x = (r / CUTOFF)[:, None]
    expected = torch.sin(x * pi * torch.arange(1, 9)) / x
    found = BesselBasis(8, CUTOFF).double()(r)
    torch.testing.assert_close(found / found[0, 0], expected / expected[0, 0])
    among_neighbours = BesselBasis(8, CUTOFF).double()(torch.tensor([0.3 * CUTOFF], dtype=torch.float64))
    assert float(among_neighbours.square().mean()) == pytest.approx(1, abs=0.2)


def test_a_warp_makes_the_basis_finer_at_short_distances():
    def zeros(warp: float | None) -> list[float]:
        """Where the eighth function changes its sign, Å."""
        r = torch.linspace(0.2, CUTOFF - 1e-3, 20_000, dtype=torch.float64)
        values = BesselBasis(8, CUTOFF, warp).double()(r)[:, 7]
        return r[1:][values[1:] * values[:-1] < 0].tolist()

    even, warped = zeros(None), zeros(3.0)
    assert len(even) == len(warped) == 7
    assert np.diff(even) == pytest.approx(CUTOFF / 8, abs=1e-3)
    assert warped[0] < 0.6 * even[0]
    assert all(longer > shorter for shorter, longer in itertools.pairwise(np.diff(warped)))


@pytest.mark.parametrize("warp", [None, 3.0])
@pytest.mark.parametrize("elements", [0, 3])
def test_derivatives_of_radial_functions(warp, elements):
    layer = functions(elements=elements, warp=warp)
    ends = torch.randint(max(1, elements), (7, 2), generator=torch.Generator().manual_seed(0))
    r = distances().requires_grad_()
    assert torch.autograd.gradcheck(layer, (r, ends))
    assert torch.autograd.gradgradcheck(layer, (r, ends))
    check_gradients(layer, [distances()], lambda x: (x, ends), of_weights=False)


def test_every_layer_gets_its_functions_and_no_distance_gives_none():
    found = functions(layers=3)(distances())
    assert [part.shape for part in found] == [(7, 4)] * 3
    assert not torch.equal(found[0], found[1])
    assert [part.shape for part in functions()(distances(0))] == [(0, 4)] * 2


def test_they_vanish_at_the_cutoff_and_beyond():
    layer = functions()
    r = torch.tensor([CUTOFF - 1e-9, CUTOFF, CUTOFF + 0.3], dtype=torch.float64, requires_grad=True)
    values = torch.cat(layer(r), dim=1)
    (slopes,) = torch.autograd.grad(values.sum(), r)
    assert values.abs().max() < 1e-20
    assert slopes.abs().max() < 1e-12


def test_functions_are_those_of_the_bond_and_not_of_its_direction():
    layer = functions(elements=3)
    r, ends = distances(), torch.tensor([[0, 1], [1, 2], [0, 2], [0, 0], [2, 1], [1, 0], [2, 2]])
    forwards, backwards = layer(r, ends), layer(r, ends.flip(1))
    torch.testing.assert_close(forwards, backwards)
    others = layer(r, (ends + 1) % 3)
    assert not torch.allclose(forwards[0], others[0])


def test_values_do_not_depend_on_whether_a_gradient_is_wanted():
    layer, r = functions(elements=2), distances()
    ends = torch.zeros(7, 2, dtype=torch.int64)
    torch.testing.assert_close(layer(r, ends), layer(r.clone().requires_grad_(), ends))
