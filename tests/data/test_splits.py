from dataclasses import replace

import pytest

from cliffordstf.data.frame import Frame
from cliffordstf.data.splits import random_split, systems_of
from cliffordstf.errors import DataError
from cliffordstf.verify.structures import random_cluster


def test_split_is_disjoint_complete_and_seeded():
    train, valid, test = random_split(100, valid=0.1, test=20, seed=3)
    assert (len(train), len(valid), len(test)) == (70, 10, 20)
    assert sorted([*train, *valid, *test]) == list(range(100))
    again = random_split(100, valid=0.1, test=20, seed=3)
    assert all((a == b).all() for a, b in zip((train, valid, test), again, strict=True))
    assert (random_split(100, 0.1, 20, seed=4)[0] != train).any()
    assert len(random_split(100, 0.1, 20, seed=3, train=5)[0]) == 5


@pytest.mark.parametrize(("valid", "test", "train"), [(60, 50, None), (0.5, 0.5, None), (10, 0, 95)])
def test_impossible_splits_are_one_clear_error(valid, test, train):
    with pytest.raises(DataError, match="100 structures cannot give"):
        random_split(100, valid, test, 0, train)
    with pytest.raises(DataError, match="valid=200 asks for 200 of 100"):
        random_split(100, 200, 0, 0)


def test_states_of_one_system_are_not_tested_and_trained_on():
    systems = [index // 7 for index in range(70)]
    train, valid, test = random_split(70, valid=0.2, test=0.15, seed=0, systems=systems)
    assert sorted([*train, *valid, *test]) == list(range(70))
    of = [{systems[index] for index in part} for part in (train, valid, test)]
    assert [len(part) for part in of] == [6, 2, 2]  # whole systems: 14 for validation, 10.5 and the rest of that one
    assert set.union(*of) == set(range(10))  # 6 + 2 + 2: no system is in two sets
    # Less than a system for validation: frames of those that are trained on, but not of those that are tested on.
    train, valid, test = random_split(70, valid=3, test=0.15, seed=0, systems=systems)
    assert (len(train), len(valid), len(test)) == (53, 3, 14)
    assert not {systems[index] for index in test} & {systems[index] for index in [*train, *valid]}
    assert len(random_split(70, valid=0, test=7, seed=0, train=5, systems=systems)[0]) == 5
    with pytest.raises(DataError, match="10 systems are too few"):
        random_split(70, valid=0, test=64, seed=0, systems=systems)


def test_frames_belong_to_a_system_where_they_share_an_id():
    frames = [Frame(random_cluster((1,), atoms=2, seed=seed)) for seed in range(4)]
    assert systems_of(frames) is None
    assert systems_of([replace(frame, id=7) for frame in frames]) is None
    assert systems_of([replace(frame, id=index) for index, frame in enumerate(frames)]) is None
    assert systems_of([replace(frame, id=index // 2) for index, frame in enumerate(frames)]) == [0, 0, 1, 1]
    mixed = [frames[0], *(replace(frame, id=index // 2) for index, frame in enumerate(frames))]
    assert systems_of(mixed) == [("frame", 0), 0, 0, 1, 1]
