import pytest
import torch
from torch import nn
from torch.nn.functional import pad

from cliffordstf.algebra.tracks import GRADES, SCALAR, STF2, VECTOR, Layout
from cliffordstf.nn.linear import (
    SIGMOID_GAIN,
    SILU_GAIN,
    TrackLinear,
    dense,
    linear_sum,
    matrix_sum,
    mlp,
    stacked,
    sum_plan,
    whole_vectors,
    widen,
)
from tests.equivariance import check_equivariance, tracks
from tests.nn.samples import CHANNELS, FULL, check_gradients, draw, features, made, mean_square, standard


@pytest.mark.parametrize("layout", [FULL, Layout((SCALAR,)), Layout((VECTOR, STF2))], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_a_map_is_equivariant_and_changes_the_width(layout, bias):
    layer = made(lambda: TrackLinear(layout, CHANNELS, 5, bias))
    x = features(layout)
    assert layer(x).shape == (*x.shape[:2], 5)
    check_equivariance(layer, [(x, tracks(layout))], tracks(layout))
    check_gradients(layer, [x])


def test_every_track_has_its_own_matrix_and_scalars_alone_a_bias():
    layer, x = made(lambda: TrackLinear(FULL, CHANNELS, 5, bias=True)), features(FULL)
    for (track, part), matrix in zip(FULL.split(layer(x)).items(), layer.weight, strict=True):
        expected = FULL.take(x, track) @ matrix + (layer.bias if track == SCALAR else 0)
        torch.testing.assert_close(part, expected)
    assert TrackLinear(Layout((VECTOR,)), 2, 2, bias=True).bias is None


def test_a_sum_of_maps_reads_each_track_where_it_lies():
    target = Layout((SCALAR, VECTOR, STF2))
    first, second = Layout((SCALAR, VECTOR)), Layout((VECTOR, STF2))
    layers = made(lambda: nn.ModuleList([TrackLinear(first, 4, 4, bias=True), TrackLinear(second, 4, 4)]))
    x, y, added = features(FULL, 3, 4), features(second, 3, 4, seed=1), features(Layout(GRADES), 3, 4, seed=2)
    plan = sum_plan(target, [(FULL, layers[0]), (second, layers[1])], scale=0.5, added=Layout(GRADES))
    found = target.split(linear_sum(plan, [(x, layers[0]), (y, layers[1])], added))
    of_x = first.split(layers[0](torch.cat([FULL.take(x, track) for track in first], dim=1)))
    of_y = second.split(layers[1](y))
    bias = layers[0].bias
    scalars = 0.5 * (of_x[SCALAR] - bias + added[:, :1]) + bias
    torch.testing.assert_close(found[SCALAR], scalars)
    torch.testing.assert_close(found[VECTOR], 0.5 * (of_x[VECTOR] + of_y[VECTOR] + added[:, 1:4]))
    torch.testing.assert_close(found[STF2], 0.5 * of_y[STF2])


def test_features_may_be_wider_than_matrices_by_zeros():
    layer, x = made(lambda: TrackLinear(FULL, CHANNELS, CHANNELS, bias=True)), features(FULL)
    wide = matrix_sum(layer.plan, [(pad(x, (0, 5)), layer.weight)], layer.bias)
    torch.testing.assert_close(wide[..., :CHANNELS], layer(x), rtol=0, atol=1e-13)
    assert wide.shape[2] == CHANNELS + 5
    assert not wide[..., CHANNELS:].any()


def test_widening_adds_zeros_at_the_end_and_nothing_where_nothing_is_missing():
    matrices = draw(2, 3, 4)
    found = widen(matrices, 5, 6)
    assert found.shape == (2, 5, 6)
    torch.testing.assert_close(found[:, :3, :4], matrices)
    assert found.abs().sum() == pytest.approx(float(matrices.abs().sum()))
    assert widen(matrices, 3, 4) is matrices
    assert [whole_vectors(count) for count in (1, 16, 17, 60)] == [16, 16, 32, 64]


def test_stacked_layers_multiply_from_the_right():
    layers = [made(lambda: dense(3, 2)), made(lambda: dense(3, 2, gain=2.0))]
    matrices, biases = stacked(layers, 4, 5)
    assert (matrices.shape, biases.shape) == ((2, 4, 5), (2, 1, 5))
    x = draw(7, 3)
    for layer, matrix, bias in zip(layers, matrices, biases, strict=True):
        torch.testing.assert_close((pad(x, (0, 1)) @ matrix + bias)[:, :2], layer(x))


def test_maps_and_networks_keep_unit_variance():
    torch.manual_seed(0)
    result = TrackLinear(FULL, 64, 64).double()(standard(FULL, 400, 64))
    for track, part in FULL.split(result).items():
        assert mean_square(part, track) == pytest.approx(1, abs=0.15), track.name
    x = draw(4000, 64)
    assert float(dense(64, 64).double()(x).detach().square().mean()) == pytest.approx(1, abs=0.1)
    for widths in ((64, 64), (64, 128, 64), (64, 128, 128, 64)):
        assert float(mlp(*widths).double()(x).detach().square().mean()) == pytest.approx(1, abs=0.15)


def test_gains_restore_unit_variance():
    x = draw(1_000_000)
    assert float((SILU_GAIN * nn.functional.silu(x)).square().mean()) == pytest.approx(1, abs=5e-3)
    assert float((SIGMOID_GAIN * torch.sigmoid(x)).square().mean()) == pytest.approx(1, abs=5e-3)


def test_networks_have_biases_that_start_at_zero_where_they_are_wanted():
    network = mlp(3, 4, 2, final_bias=False)
    assert [type(layer) for layer in network] == [nn.Linear, nn.SiLU, nn.Linear]
    assert not network[0].bias.any()
    assert network[2].bias is None
