import pytest
import torch

from cliffordstf.algebra.actions import act, random_rotation
from cliffordstf.algebra.tracks import BIVECTOR, GRADES, SCALAR, STF2, STF3, TRACKS, VECTOR, Layout, natural_track, stf


def test_labels_and_dims():
    assert [track.label for track in TRACKS] == ["0+", "1-", "1+", "0-", "2+", "3-", "4+"]
    assert Layout(GRADES).dims == 8
    assert Layout((*GRADES, STF2)).dims == 13
    assert Layout((*GRADES, STF2, STF3)).dims == 20


def test_layout_keeps_storage_order():
    layout = Layout((STF2, SCALAR, VECTOR))
    assert [track.name for track in layout] == ["scalar", "vector", "stf2"]
    x = torch.arange(9.0)[None, :, None]
    assert layout.take(x, VECTOR).flatten().tolist() == [1, 2, 3]
    assert layout.slice(STF2) == slice(4, 9)


def test_repeated_tracks_are_refused():
    with pytest.raises(ValueError, match="repeated"):
        Layout((SCALAR, SCALAR))


def test_stf_starts_at_degree_two():
    assert natural_track(1) == VECTOR
    with pytest.raises(ValueError, match="degree 2"):
        stf(1)


def test_action_inverts_by_parity(generator):
    layout = Layout((SCALAR, VECTOR, BIVECTOR, STF2, STF3))
    x = torch.randn(2, layout.dims, 3, generator=generator, dtype=torch.float64)
    inverted = act(x, layout, -torch.eye(3, dtype=torch.float64))
    for track in layout:
        torch.testing.assert_close(layout.take(inverted, track), track.parity * layout.take(x, track))
    q = random_rotation(generator)
    torch.testing.assert_close(act(act(x, layout, q), layout, q.T), x, rtol=0, atol=1e-12)
