import pytest
import torch
from torch import Tensor

from cliffordstf.algebra.clifford import geometric_product
from cliffordstf.algebra.tracks import GRADES, SCALAR, STF2, STF3, STF4, VECTOR, Layout
from cliffordstf.nn.linear import TrackLinear
from cliffordstf.nn.product import AugmentedProduct, WeightedProduct, augmented_couplings
from tests.equivariance import ATOM_INVARIANTS, SYMMETRIES, check_equivariance, equivariance_errors, tracks
from tests.nn.samples import ATOMS, CHANNELS, FULL, SPECIES, check_gradients, features, made, mean_square, standard

CARRIED = Layout((*GRADES, STF2, STF3, STF4))
SCALARS = Layout((SCALAR,))


@pytest.mark.parametrize("body_order", [2, 3, 4])
def test_the_augmented_product_breaks_reflections_and_nothing_else(body_order):
    layer = AugmentedProduct(FULL, FULL, FULL, CHANNELS, body_order).double()
    inputs, outputs = [(features(FULL), tracks(FULL))], [tracks(layout) for layout in layer.powers]
    assert len(layer.powers) == body_order - 1
    errors = equivariance_errors(layer, inputs, outputs, SYMMETRIES)
    reflection = errors.pop("reflection")
    assert max(errors.values()) < 1e-10
    assert (reflection > 0.01) == (body_order > 2)


def test_of_grades_alone_it_is_the_geometric_product():
    grades = Layout(GRADES)
    layer, x = AugmentedProduct(grades, grades, grades, CHANNELS, 4), features(grades)
    square = geometric_product(x, x)
    for found, expected in zip(layer(x), [x, square, geometric_product(square, x)], strict=True):
        torch.testing.assert_close(found, expected)
    assert all(factor in (1.0, -1.0) for _, factor in augmented_couplings(CARRIED))


def test_its_maps_times_the_following_one_are_both_in_turn():
    wanted = Layout((SCALAR, VECTOR, STF2))
    layer = made(lambda: AugmentedProduct(FULL, FULL, wanted, CHANNELS, 3))
    following = made(lambda: TrackLinear(layer.layout, CHANNELS, CHANNELS))
    for linear, matrices in zip(layer.maps(), layer.matrices(following), strict=True):
        x = features(linear.layout)
        places = [layer.layout.tracks.index(track) for track in linear.layout]
        for index, (track, part) in enumerate(linear.layout.split(linear(x)).items()):
            expected = part @ following.weight[places[index]]
            torch.testing.assert_close(linear.layout.take(x, track) @ matrices[index], expected)


@pytest.mark.parametrize("body_order", [2, 3, 4, 5])
@pytest.mark.parametrize("wanted", [SCALARS, CARRIED], ids=["scalars", "all"])
def test_the_weighted_product_is_equivariant(body_order, wanted):
    layer = made(lambda: WeightedProduct(FULL, CARRIED, wanted, 2, CHANNELS, body_order))
    inputs = [(0.3 * features(FULL), tracks(FULL)), (SPECIES, ATOM_INVARIANTS)]
    outputs = [tracks(layout) for layout in layer.powers]
    assert len(outputs) == body_order - 1
    check_equivariance(layer, inputs, outputs)


@pytest.mark.parametrize("layout", [Layout((SCALAR, VECTOR, STF2)), SCALARS], ids=str)
@pytest.mark.parametrize("make", [WeightedProduct, AugmentedProduct])
def test_gradients(make, layout):
    if make is AugmentedProduct:
        check_gradients(made(lambda: AugmentedProduct(layout, layout, layout, 2, 4)), [features(layout, 3, 2)])
        return
    layer = made(lambda: WeightedProduct(layout, layout, layout, 2, 2, 4))
    check_gradients(layer, [features(layout, 3, 2)], lambda x: (x, SPECIES[:3]))


def test_powers_of_scalars_are_products():
    layer = made(lambda: WeightedProduct(SCALARS, SCALARS, SCALARS, 2, CHANNELS, 4))
    x = features(SCALARS)
    first, square, cube = layer(x, SPECIES)
    weights = [weight[SPECIES] for weight in layer.weights]
    torch.testing.assert_close(first, x)
    torch.testing.assert_close(square, weights[0] * x * x)
    torch.testing.assert_close(cube, weights[1] * x * square)


def test_elements_have_weights_of_their_own():
    layer, x = made(lambda: WeightedProduct(FULL, FULL, FULL, 2, CHANNELS, 3)), features(FULL)
    before = layer(x, SPECIES)[1].detach()
    with torch.no_grad():
        layer.weights[0][1] *= 2
    after = layer(x, SPECIES)[1]
    torch.testing.assert_close(after, before * (1 + SPECIES.double())[:, None, None])


def test_untrained_elements_are_alike():
    torch.manual_seed(0)
    layer, x = WeightedProduct(FULL, FULL, FULL, 2, CHANNELS, 4).double(), features(FULL)
    for first, second in zip(layer(x, SPECIES), layer(x, 1 - SPECIES), strict=True):
        torch.testing.assert_close(first, second)


def test_every_weight_has_an_effect_on_a_wanted_track():
    layer = made(lambda: WeightedProduct(FULL, CARRIED, SCALARS, 1, 1, 4))
    x, none = features(FULL, channels=1), torch.zeros(ATOMS, dtype=torch.int64)
    total: Tensor = sum(
        (layout.take(power, SCALAR) ** 2).sum()
        for layout, power in zip(layer.powers[1:], layer(x, none)[1:], strict=True)
        if SCALAR in layout
    )
    for gradient in torch.autograd.grad(total, list(layer.weights)):
        assert (gradient.abs() > 1e-12).all()


def test_the_square_keeps_about_unit_variance():
    torch.manual_seed(0)
    layer = WeightedProduct(FULL, FULL, FULL, 1, 64, 3).double()
    square = layer(standard(FULL, 400, 64), torch.zeros(400, dtype=torch.int64))[1]
    for track, part in layer.powers[1].split(square).items():
        assert 0.1 < mean_square(part, track) < 3, track.name
