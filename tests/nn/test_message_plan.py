import torch

from cliffordstf.algebra.tracks import BIVECTOR, GRADES, SCALAR, STF2, VECTOR, Layout
from cliffordstf.kernels import track_linear
from cliffordstf.nn.message_plan import MessagePlanBuilder, weighting_plan
from tests.nn.samples import FULL, draw, features


def builder() -> MessagePlanBuilder:
    """One product, one term that is sent through a matrix, one through a matrix after S·v."""
    made = MessagePlanBuilder(Layout(GRADES))
    made.product("plus", "alpha*edge1", VECTOR, VECTOR, BIVECTOR, -1)
    made.send("send", "radial", STF2, SCALAR, STF2)
    made.send_contraction("cross", "alpha*one", VECTOR, SCALAR, VECTOR)
    return made


def test_what_is_sent_lies_behind_the_grades():
    made = builder()
    assert (made.sent, made.contracted) == ({"send_stf2": (STF2, 8)}, {"cross_vector": (VECTOR, 13)})
    plan = made.plan()
    assert (plan.source_dims, plan.edge_dims, plan.target_dims) == (16, 4, 11)
    assert [path.source for path in plan.paths] == [1, 8, 13]
    assert [path.scale for path in plan.paths] == [-1.0, 1.0, 1.0]
    assert list(made.rows) == ["alpha*edge1", "radial", "alpha*one"]
    assert made.layout() == Layout((VECTOR, BIVECTOR, STF2))


def test_rows_and_places_are_shared_by_paths_that_ask_for_the_same():
    made = builder()
    made.send("edge", "radial", STF2, SCALAR, STF2)
    assert len(made.rows) == 3
    assert made.target_dims == 11
    assert [path.target for path in made.paths] == [0, 3, 8, 3]


def test_sending_and_receiving_put_tracks_into_their_places():
    made, x, contracted = builder(), features(FULL, 2, 4), draw(2, 3, 4, seed=1)
    matrices = draw(2, 4, 4, seed=2)
    sent = track_linear(made.sending(FULL), [(x, matrices[:1]), (contracted, matrices[1:])])
    torch.testing.assert_close(sent[:, :8], x[:, :8])
    torch.testing.assert_close(sent[:, 8:13], FULL.take(x, STF2) @ matrices[0])
    torch.testing.assert_close(sent[:, 13:], contracted @ matrices[1])
    sums = draw(2, 11, 4, seed=3)
    received = made.layout().split(track_linear(made.receiving(), [(sums, matrices[:1])]))
    torch.testing.assert_close(received[BIVECTOR], sums[:, :3] @ matrices[0])
    torch.testing.assert_close(received[STF2], sums[:, 3:8])
    torch.testing.assert_close(received[VECTOR], sums[:, 8:])


def test_weight_rows_are_made_of_hidden_features_biases_and_ones():
    rows = ("alpha*edge1", "radial", "one", "edge0")
    hidden, radial, envelope = draw(5, 2, 3), draw(5, 1, 3, seed=1), draw(5, 1, 1, seed=2)
    matrices, bias = draw(3, 3, 3, seed=3), draw(3, 1, 3, seed=4)
    terms = [
        (hidden, matrices[:2]),
        (radial, matrices[2:]),
        (envelope, bias),
        (torch.ones_like(envelope), bias.new_ones(1, 1, 3)),
    ]
    found = track_linear(weighting_plan(rows, 2), terms)
    torch.testing.assert_close(found[:, 0], hidden[:, 1] @ matrices[0] + envelope[:, 0] * bias[0])
    torch.testing.assert_close(found[:, 1], radial[:, 0] @ matrices[2] + envelope[:, 0] * bias[2])
    torch.testing.assert_close(found[:, 2], torch.ones(5, 3, dtype=torch.float64))
    torch.testing.assert_close(found[:, 3], hidden[:, 0] @ matrices[1] + envelope[:, 0] * bias[1])
