import numpy as np
import pytest

from cliffordstf.data.frame import Frame
from cliffordstf.data.references import find_references
from cliffordstf.data.structure import Structure
from cliffordstf.errors import DataError

E0 = {1: -13.6, 6: -1030.0, 8: -2042.0}


def frame(numbers: list[int], extra: float = 0.0, labelled: bool = True) -> Frame:
    positions = np.arange(3 * len(numbers), dtype=float).reshape(-1, 3)
    return Frame(Structure(numbers, positions), energy=sum(E0[n] for n in numbers) + extra if labelled else None)


def test_least_squares_finds_the_atoms():
    frames = [frame([1, 1]), frame([6, 8]), frame([6, 1, 1, 1, 1]), frame([1, 1, 8])]
    found = find_references(frames, (1, 6, 8), "least-squares")
    assert found.mode == "least-squares"
    assert not found.warnings
    for number, energy in E0.items():
        assert found.energies[number] == pytest.approx(energy, abs=1e-8)


def test_one_composition_is_fitted_in_sum_and_warned_about():
    frames = [frame([6, 8, 1], extra) for extra in (-1.0, 1.0)]
    found = find_references(frames, (1, 6, 8))
    assert "only 1 independent compositions for 3 elements" in found.warnings[0]
    assert found.of(frames[0]) == pytest.approx(sum(E0.values()))


def test_a_fit_that_leaves_nothing_to_learn_is_warned_about():
    frames = [frame([1, 1], 0.3), frame([6, 8], -0.2), frame([6, 1, 1], 0.1)]
    found = find_references(frames, (1, 6, 8))
    assert [found.of(f) for f in frames] == pytest.approx([f.energy for f in frames])
    assert "nothing is left to learn from these; give reference energies" in found.warnings[0]
    assert not find_references([*frames, frame([1, 1], 0.4)], (1, 6, 8)).warnings


def test_isolated_atoms_are_taken_where_there_are_all():
    atoms = [frame([number]) for number in E0]
    found = find_references([*atoms, frame([6, 8], -11.0)], (1, 6, 8))
    assert found.mode == "isolated"
    assert found.energies == E0
    assert find_references([*atoms[:2], frame([6, 8])], (1, 6, 8)).mode == "least-squares"
    with pytest.raises(DataError, match="no isolated atom for O"):
        find_references(atoms[:2], (1, 6, 8), "isolated")


def test_an_atom_in_a_large_periodic_box_is_isolated():
    boxed = Frame(Structure([1], np.zeros((1, 3)), np.eye(3) * 12, True), energy=-13.6)
    packed = Frame(Structure([1], np.zeros((1, 3)), np.eye(3) * 3, True), energy=-15.0)
    assert find_references([boxed, frame([1, 1])], (1,)).mode == "isolated"
    assert find_references([packed, frame([1, 1])], (1,)).mode == "least-squares"


def test_given_energies_must_cover_every_element():
    assert find_references([frame([1, 1])], (1,), {1: -13.6}).energies == {1: -13.6}
    with pytest.raises(DataError, match="no isolated-atom energy was given for C, O"):
        find_references([], (1, 6, 8), {1: -13.6})


def test_references_that_do_not_match_the_data_are_warned_about():
    doubled = find_references([frame([6, 8], 0.0)], (6, 8), {6: 0.0, 8: 0.0})
    assert "-1536.0 eV per atom are left" in doubled.warnings[0]
    fine = find_references([frame([6, 8], -11.0)], (6, 8), E0)
    assert not fine.warnings


def test_energy_free_data():
    assert find_references([frame([1, 1], labelled=False)], (1,)).mode == "none"
    with pytest.raises(DataError, match="cannot be fitted"):
        find_references([frame([1, 1], labelled=False)], (1,), "least-squares")


def test_a_mean_over_atoms_is_fitted_to_shares_of_elements():
    gaps = {1: 8.0, 6: 2.0, 8: 5.0}
    compositions = [[1, 1], [6, 8], [6, 1, 1, 1, 1], [1, 1, 8], [1]]
    frames = []
    for numbers in compositions:
        positions = np.arange(3 * len(numbers), dtype=float).reshape(-1, 3)
        frames.append(Frame(Structure(numbers, positions), energy=float(np.mean([gaps[n] for n in numbers]))))
    found = find_references(frames, (1, 6, 8), pooling="mean")
    assert found.energies == pytest.approx(gaps)
    assert [found.of(f) for f in frames] == pytest.approx([f.energy for f in frames])
    assert found.shares(frames[2]) == 1


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_the_mean_is_taken_off_whatever_the_size(pooling):
    frames = [frame([1, 1], 1.0), frame([6, 8], 3.0), frame([8], 0.0)]
    found = find_references(frames, (1, 6, 8), "mean", pooling)
    assert found.mode == "mean"
    assert [found.of(f) for f in frames] == pytest.approx([np.mean([f.energy for f in frames])] * 3)
    with pytest.raises(DataError, match="no structure carries an energy"):
        find_references([frame([1], labelled=False)], (1,), "mean")
