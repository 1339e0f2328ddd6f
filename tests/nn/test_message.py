import pytest
import torch
from torch import Tensor

from cliffordstf.algebra.tracks import BIVECTOR, GRADES, PSEUDOSCALAR, SCALAR, STF2, STF3, VECTOR, Layout
from cliffordstf.nn.linear import VECTOR_WIDTH
from cliffordstf.nn.message import DualTrackMessage, EdgeEmbedding, message_grades
from cliffordstf.nn.radial import GaussianBasis, cosine_envelope
from tests.equivariance import PAIRS as PAIR_INDICES
from tests.equivariance import POSITIONS, check_equivariance, tracks
from tests.nn.samples import (
    ATOMS,
    CHANNELS,
    CUTOFF,
    FULL,
    PAIRS,
    check_gradients,
    edge_geometry,
    features,
    made,
    positions,
)

BASIS = 10
SCALARS = Layout((SCALAR,))
VARIANTS = [
    (FULL, FULL, True, True),
    (FULL, FULL, False, False),
    (SCALARS, FULL, True, True),
    (Layout((SCALAR, VECTOR)), Layout(GRADES), True, False),
    (FULL, SCALARS, False, True),
]


def message(source: Layout, target: Layout, edge_stf2: bool, cross: bool, channels: int = CHANNELS) -> DualTrackMessage:
    return made(lambda: DualTrackMessage(source, target, channels, BASIS, 2, edge_stf2, cross))


def arguments(places: Tensor, pairs: Tensor = PAIRS, stf2: bool = True, channels: int = CHANNELS) -> tuple:
    """Everything but the features."""
    geometry = edge_geometry(places, pairs)
    lengths = geometry.pair_distances()
    basis, envelope = GaussianBasis(BASIS, CUTOFF).double()(lengths), cosine_envelope(lengths, CUTOFF)
    hidden = made(lambda: EdgeEmbedding(BASIS, channels, stf2))(basis, envelope)
    return geometry.direction_tensors(2), basis, hidden, envelope, geometry


@pytest.mark.parametrize(("source", "target", "edge_stf2", "cross"), VARIANTS)
def test_messages_are_equivariant(source, target, edge_stf2, cross):
    layer = message(source, target, edge_stf2, cross)

    def aggregated(x: Tensor, places: Tensor, pairs: Tensor) -> Tensor:
        return layer(x, *arguments(places, pairs, edge_stf2))

    inputs = [(features(source), tracks(source)), (positions(), POSITIONS), (PAIRS, PAIR_INDICES)]
    found = aggregated(*(value for value, _ in inputs))
    assert found.shape == (ATOMS, layer.layout.dims, CHANNELS)
    assert set(layer.layout) <= set(target)
    check_equivariance(aggregated, inputs, tracks(layer.layout))


@pytest.mark.parametrize(("source", "target", "edge_stf2", "cross"), VARIANTS[:3])
def test_gradients(source, target, edge_stf2, cross):
    layer = message(source, target, edge_stf2, cross, channels=2)
    check_gradients(
        layer,
        [features(source, channels=2), positions()],
        lambda x, places: (x, *arguments(places, stf2=edge_stf2, channels=2)),
        of_weights=False,
    )


def test_atoms_without_neighbours_receive_nothing():
    layer = message(FULL, FULL, True, True)
    found = layer(features(FULL), *arguments(positions()))
    assert found[:-1].abs().amin() > 0
    assert not found[-1].any()
    assert not layer(features(FULL), *arguments(positions(), PAIRS[:0])).any()


def test_wider_features_stay_zero_beyond_the_channels():
    layer, x = message(FULL, FULL, True, True), features(FULL)
    wide = layer(torch.nn.functional.pad(x, (0, 5)), *arguments(positions()))
    torch.testing.assert_close(wide[..., :CHANNELS], layer(x, *arguments(positions())), rtol=0, atol=1e-12)
    assert not wide[..., CHANNELS:].any()


def test_hidden_edge_features_vanish_with_the_envelope_and_beyond_the_channels():
    layer = made(lambda: EdgeEmbedding(BASIS, CHANNELS, stf2=True))
    lengths = torch.tensor([1.0, CUTOFF - 1e-6, CUTOFF + 1], dtype=torch.float64)
    hidden = layer(GaussianBasis(BASIS, CUTOFF).double()(lengths), cosine_envelope(lengths, CUTOFF))
    assert hidden.shape == (3, 3, VECTOR_WIDTH)
    assert not hidden[..., CHANNELS:].any()
    assert hidden[0, :, :CHANNELS].abs().amin() > 0
    assert hidden[1].abs().max() < 1e-10
    assert not hidden[2].any()
    assert EdgeEmbedding(BASIS, CHANNELS, stf2=False).count == 2


@pytest.mark.parametrize(
    ("source", "max_grade", "reached"),
    [
        (SCALARS, 3, (SCALAR, VECTOR)),
        (Layout((SCALAR, VECTOR)), 3, (SCALAR, VECTOR, BIVECTOR)),
        (Layout((SCALAR, VECTOR)), 1, (SCALAR, VECTOR)),
        (Layout((SCALAR, VECTOR, BIVECTOR, STF2)), 3, GRADES),
        (Layout((PSEUDOSCALAR,)), 3, (BIVECTOR, PSEUDOSCALAR)),
        (Layout((STF2, STF3)), 3, ()),
    ],
)
def test_grades_that_a_message_can_reach(source, max_grade, reached):
    assert message_grades(source, max_grade) == reached
