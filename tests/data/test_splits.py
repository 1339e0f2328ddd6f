import numpy as np
import pytest

from cliffordstf.algebra.actions import random_rotation
from cliffordstf.data.frame import Frame
from cliffordstf.data.splits import fingerprints, leaked, random_split
from cliffordstf.data.structure import Structure
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


def test_leaks_are_found_even_when_the_structure_was_moved_and_turned(generator):
    first = [Frame(random_cluster((1, 6, 8), seed=seed)) for seed in range(5)]
    turned = first[3].structure.positions @ random_rotation(generator).numpy().T + 7.0
    second = [Frame(random_cluster((1, 6, 8), seed=9)), Frame(Structure(first[3].structure.numbers, turned))]
    assert leaked(fingerprints(first), fingerprints(second)) == [(3, 1)]
    nudged = Structure(first[3].structure.numbers, first[3].structure.positions + np.eye(10, 3) * 0.05)
    assert leaked(fingerprints(first), fingerprints([Frame(nudged)])) == []


def test_the_same_lattice_with_other_atoms_is_another_structure():
    grid = np.array([[i, j, k] for i in range(3) for j in range(3) for k in range(3)]) * 2.5
    alloys = []
    for site in (0, 1, 13):
        numbers = np.full(27, 29)
        numbers[[site, 2]] = 79
        alloys.append(Frame(Structure(numbers, grid, np.eye(3) * 7.5, True)))
    assert len(set(fingerprints(alloys))) == 3
