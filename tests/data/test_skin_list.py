import numpy as np
import pytest

from cliffordstf.data.neighbours import NeighbourList, neighbour_list
from cliffordstf.data.skin_list import SkinList
from cliffordstf.data.structure import Structure
from cliffordstf.errors import ConfigError
from cliffordstf.verify.structures import random_cluster, triclinic_crystal

CUTOFF = 4.0


def assert_same(found: NeighbourList, expected: NeighbourList) -> None:
    for name in ("senders", "receivers", "shifts"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


def moved(structure: Structure, by: np.ndarray) -> Structure:
    return Structure(structure.numbers, structure.positions + by, structure.cell, structure.pbc)


@pytest.mark.parametrize(
    "structure", [random_cluster((1, 8), 20), triclinic_crystal((14,))], ids=["cluster", "crystal"]
)
def test_a_walk_gives_fresh_lists_in_the_same_order(structure):
    generator = np.random.default_rng(0)
    neighbours = SkinList(CUTOFF, skin=0.6)
    for _ in range(60):
        structure = moved(structure, generator.normal(scale=0.03, size=structure.positions.shape))
        neighbours.update(structure)
        assert_same(neighbours.within(CUTOFF), neighbour_list(structure, CUTOFF))
        assert_same(neighbours.within(3.1), neighbour_list(structure, 3.1))
    assert 1 < neighbours.builds < 20
    assert neighbours.seconds > 0


def test_the_list_is_built_only_when_an_atom_moved_more_than_half_the_skin():
    structure = random_cluster((1,), 8)
    neighbours = SkinList(CUTOFF, skin=0.5)
    neighbours.update(structure)
    step = np.zeros_like(structure.positions)
    step[3, 0] = 0.249
    neighbours.update(moved(structure, step))
    assert neighbours.builds == 1
    step[3, 0] = 0.251
    neighbours.update(moved(structure, step))
    assert neighbours.builds == 2
    # The distance counts from the last build, not from the last call.
    for part in (0.1, 0.2, 0.24):
        neighbours.update(moved(structure, step + part * np.eye(3)[1]))
    assert neighbours.builds == 2


def test_the_same_list_comes_back_until_a_pair_crosses_the_cutoff():
    structure = Structure([1, 1], [[0.0, 0, 0], [CUTOFF - 0.1, 0, 0]])
    neighbours = SkinList(CUTOFF, skin=0.6)
    lists = []
    for step in (0.0, 0.05, 0.15, 0.16, 0.0):
        neighbours.update(moved(structure, np.array([[0.0, 0, 0], [step, 0, 0]])))
        lists.append(neighbours.within(CUTOFF))
    assert neighbours.builds == 1
    assert [len(edges.senders) for edges in lists] == [2, 2, 0, 0, 2]
    assert lists[0] is lists[1]
    assert lists[2] is lists[3]
    assert lists[4] is not lists[2]


def test_another_cell_pbc_or_element_builds_anew():
    structure = triclinic_crystal((14,))
    neighbours = SkinList(CUTOFF)
    variants = [
        structure,
        Structure(structure.numbers, structure.positions, structure.cell * 1.0001, structure.pbc),
        Structure(structure.numbers, structure.positions, structure.cell, [True, True, False]),
        Structure(structure.numbers + 1, structure.positions, structure.cell, structure.pbc),
        Structure(structure.numbers[:2], structure.positions[:2], structure.cell, structure.pbc),
    ]
    for count, variant in enumerate(variants, start=1):
        neighbours.update(variant)
        neighbours.update(variant)
        assert neighbours.builds == count
        assert_same(neighbours.within(CUTOFF), neighbour_list(variant, CUTOFF))


def test_misuse_is_an_error():
    with pytest.raises(ConfigError, match=r"skin=-0.1"):
        SkinList(CUTOFF, -0.1)
    neighbours = SkinList(CUTOFF)
    with pytest.raises(ConfigError, match="no structure yet"):
        neighbours.within(CUTOFF)
    neighbours.update(random_cluster((1,), 4))
    with pytest.raises(ConfigError, match=r"reaches 4.0 Å, not 5.0 Å"):
        neighbours.within(5.0)
