import pytest
import torch
from torch.nn.functional import pad, silu

from cliffordstf.algebra.tracks import GRADES, SCALAR, STF2, VECTOR, Layout
from cliffordstf.nn.gate import NormGate, ScalarGate
from cliffordstf.nn.linear import SIGMOID_GAIN, SILU_GAIN
from tests.equivariance import check_equivariance, tracks
from tests.nn.samples import ATOMS, CHANNELS, FULL, check_gradients, features, made, mean_square, standard

LAYOUTS = [FULL, Layout(GRADES), Layout((SCALAR,))]
GATES = [NormGate, ScalarGate]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("kind", GATES)
def test_gates_are_equivariant_and_keep_the_shape(kind, layout):
    layer = made(lambda: kind(layout, CHANNELS))
    x = features(layout)
    assert layer(x).shape == x.shape
    check_equivariance(layer, [(x, tracks(layout))], tracks(layout))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("kind", GATES)
def test_gradients(kind, layout):
    check_gradients(made(lambda: kind(layout, 3)), [features(layout, 3, 3)])


def test_scalars_pass_through_silu():
    x = features(FULL)
    torch.testing.assert_close(NormGate(FULL, CHANNELS).double()(x)[:, 0], silu(x[:, 0]))
    torch.testing.assert_close(ScalarGate(FULL, CHANNELS).double()(x)[:, 0], silu(x[:, 0]) * SILU_GAIN)


def test_other_tracks_are_multiplied_by_a_sigmoid_of_invariants():
    x = features(FULL)
    by_norm, by_scalar = made(lambda: NormGate(FULL, CHANNELS)), made(lambda: ScalarGate(FULL, CHANNELS))
    vectors = FULL.take(x, VECTOR)
    factors = torch.sigmoid(by_norm.gates["vector"](vectors.norm(dim=1)))
    torch.testing.assert_close(FULL.take(by_norm(x), VECTOR), vectors * factors[:, None])
    index = [track for track in FULL if track != SCALAR].index(STF2)
    factors = SIGMOID_GAIN * torch.sigmoid(x[:, 0] @ by_scalar.weight[index] + by_scalar.bias[index])
    torch.testing.assert_close(FULL.take(by_scalar(x), STF2), FULL.take(x, STF2) * factors[:, None])


def test_a_norm_gate_needs_no_scalars():
    layout = Layout((VECTOR, STF2))
    layer = made(lambda: NormGate(layout, CHANNELS))
    check_equivariance(layer, [(features(layout), tracks(layout))], tracks(layout))


def test_an_atom_without_features_stays_so_and_has_a_gradient():
    x = torch.zeros(ATOMS, FULL.dims, CHANNELS, dtype=torch.float64, requires_grad=True)
    for kind in GATES:
        result = made(lambda kind=kind: kind(FULL, CHANNELS))(x)
        assert not result.any()
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert gradient.isfinite().all()


def test_a_scalar_gate_keeps_unit_variance():
    torch.manual_seed(0)
    x = standard(FULL, 400, 64)
    result = ScalarGate(FULL, 64).double()(x)
    for track, part in FULL.split(result).items():
        assert 0.8 < mean_square(part, track) < 1.25, track.name


def test_channels_that_a_norm_gate_does_not_have_stay_zero():
    layer, x = made(lambda: NormGate(FULL, CHANNELS)), features(FULL)
    wide = layer(pad(x, (0, 5)))
    torch.testing.assert_close(wide[..., :CHANNELS], layer(x), rtol=0, atol=1e-13)
    assert not wide[..., CHANNELS:].any()
