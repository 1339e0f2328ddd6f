import pytest
import torch
from torch.nn.functional import pad

from cliffordstf.algebra.stf import frobenius_squared
from cliffordstf.algebra.tracks import SCALAR, STF2, VECTOR, Layout
from cliffordstf.nn.norm import EPSILON, NORM_FLOOR, TrackNorm, TrackNorms, norm
from tests.equivariance import ATOM_INVARIANTS, check_equivariance, tracks
from tests.nn.samples import ATOMS, CHANNELS, FULL, check_gradients, features, made, mean_square


def test_norms_are_frobenius_norms_of_every_track():
    x = features(FULL)
    norms = TrackNorms(FULL)
    squared, smooth = norms.squared(x), norms(x)
    for index, (track, part) in enumerate(FULL.split(x).items()):
        expected = frobenius_squared(part, track.degree) if track.degree > 1 else part.square().sum(dim=1)
        torch.testing.assert_close(squared[:, index], expected)
        torch.testing.assert_close(smooth[:, index], (expected + EPSILON).sqrt())
        torch.testing.assert_close(norm(part, track), smooth[:, index])


def test_norms_are_invariant_and_factors_per_track_equivariant():
    norms, x = TrackNorms(FULL), features(FULL)
    check_equivariance(norms, [(x, tracks(FULL))], ATOM_INVARIANTS)
    factors = features(FULL)[:, : len(FULL)]
    check_equivariance(norms.multiply, [(x, tracks(FULL)), (factors, ATOM_INVARIANTS)], tracks(FULL))


def test_factors_reach_the_components_of_their_track_only():
    norms, x = TrackNorms(FULL), features(FULL)
    factors = torch.ones(ATOMS, len(FULL), CHANNELS, dtype=torch.float64)
    factors[:, FULL.tracks.index(VECTOR)] = 3.0
    found = norms.multiply(x, factors)
    for track, part in FULL.split(found).items():
        torch.testing.assert_close(part, (3 if track == VECTOR else 1) * FULL.take(x, track))


@pytest.mark.parametrize("layout", [FULL, Layout((SCALAR,)), Layout((STF2,))], ids=str)
def test_normalisation_is_equivariant_with_gradients(layout):
    layer = made(lambda: TrackNorm(layout, CHANNELS))
    x = features(layout)
    assert layer(x).shape == x.shape
    check_equivariance(layer, [(x, tracks(layout))], tracks(layout))
    check_gradients(made(lambda: TrackNorm(layout, 3)), [features(layout, 3, 3)])


@pytest.mark.parametrize(("size", "factor"), [(1e3, 1e-3), (1e-4, NORM_FLOOR**-0.5)])
def test_large_tracks_get_unit_size_and_tiny_ones_are_never_blown_up(size, factor):
    x = features(FULL, 50, 16)
    for track in FULL:
        part = FULL.take(x, track)
        part /= (norm(part, track) ** 2).mean(dim=1)[:, None, None].sqrt()
    result = TrackNorm(FULL, 16).double()(size * x)
    torch.testing.assert_close(result, size * factor * x, rtol=1e-4, atol=1e-8)
    if size > 1:
        for track, part in FULL.split(result).items():
            assert mean_square(part, track) * (2 * track.degree + 1) == pytest.approx(1, rel=1e-3)


def test_gradients_stay_finite_where_features_vanish():
    x = torch.zeros(2, FULL.dims, 3, dtype=torch.float64, requires_grad=True)
    for function in (TrackNorms(FULL), TrackNorm(FULL, 3).double()):
        (gradient,) = torch.autograd.grad(function(x).sum(), x)
        assert gradient.isfinite().all()


def test_channels_that_a_layer_does_not_have_stay_zero():
    layer, x = made(lambda: TrackNorm(FULL, CHANNELS)), features(FULL)
    wide = layer(pad(x, (0, 5)))
    torch.testing.assert_close(wide[..., :CHANNELS], layer(x), rtol=0, atol=1e-13)
    assert not wide[..., CHANNELS:].any()
