"""Equal structures, however they are written down."""

import numpy as np
from ase.build import bulk, molecule

from cliffordstf.algebra.actions import random_rotation
from cliffordstf.data.duplicates import find_duplicates, marks, shared
from cliffordstf.data.frame import Frame
from cliffordstf.data.readers import read_frames
from cliffordstf.data.structure import Structure
from cliffordstf.verify.structures import random_cluster


def test_moved_turned_and_reordered_structures_are_equal(generator):
    first = [Frame(random_cluster((1, 6, 8), seed=seed)) for seed in range(5)]
    turned = first[3].structure.positions @ random_rotation(generator).numpy().T + 7.0
    order = np.random.default_rng(0).permutation(10)
    moved = Structure(first[3].structure.numbers[order], turned[order])
    second = [Frame(random_cluster((1, 6, 8), seed=9)), Frame(moved)]
    assert shared(marks(first), marks(second)) == [(3, 1)]
    assert [group.members for group in find_duplicates([*first, *second])] == [(3, 6)]
    nudged = Structure(first[3].structure.numbers, first[3].structure.positions + np.eye(10, 3) * 0.05)
    assert shared(marks(first), marks([Frame(nudged)])) == []


def test_equal_within_the_digits_of_a_file_wherever_they_are_rounded():
    frames = [Frame(random_cluster((1, 6, 8), seed=seed)) for seed in range(200)]
    rounded = [Frame(Structure(frame.structure.numbers, np.round(frame.structure.positions, 5))) for frame in frames]
    assert shared(marks(frames), marks(rounded)) == [(index, index) for index in range(200)]


def test_the_same_lattice_with_other_atoms_is_another_structure():
    grid = np.array([[i, j, k] for i in range(3) for j in range(3) for k in range(3)]) * 2.5
    alloys = []
    for site in (0, 1, 13):
        numbers = np.full(27, 29)
        numbers[[site, 2]] = 79
        alloys.append(Frame(Structure(numbers, grid, np.eye(3) * 7.5, True)))
    # Sites 0 and 1 are both next to site 2, one of them through the boundary of the cell; site 13 is not.
    assert [group.members for group in find_duplicates(alloys)] == [(0, 1)]


def test_another_image_of_an_atom_makes_no_other_crystal(generator):
    atoms = bulk("NaCl", "rocksalt", 5.6, cubic=True)
    atoms.rattle(0.1, seed=1)
    shifted = atoms.positions + np.random.default_rng(0).integers(-2, 3, size=(8, 3)) @ atoms.cell.array + 0.3
    turn = random_rotation(generator).numpy()
    other = Structure(atoms.numbers, shifted @ turn.T, atoms.cell.array @ turn.T, True)
    stretched = Structure(atoms.numbers, atoms.positions * 1.001, atoms.cell.array * 1.001, True)
    frames = [Frame(Structure.from_ase(atoms)), Frame(other), Frame(stretched)]
    assert [group.members for group in find_duplicates(frames)] == [(0, 1)]


def test_labels_of_equal_structures_may_contradict_each_other():
    atoms = molecule("H2O")
    structure = Structure.from_ase(atoms)
    forces = np.zeros((3, 3))
    frames = [Frame(structure, 1.0, forces), Frame(structure, 1.0, forces), Frame(structure, 1.2, forces + 0.1)]
    (group,) = find_duplicates(frames)
    assert group.members == (0, 1, 2)
    assert group.contradicts
    assert abs(group.energy_difference - 0.2) < 1e-12
    assert abs(group.force_difference - 0.1 * 3**0.5) < 1e-12
    assert not find_duplicates(frames[:2])[0].contradicts


def test_frames_of_a_trajectory_are_no_duplicates(real_data):
    frames, _ = read_frames(real_data / "rmd17" / "rmd17_ethanol_train_01.npz")
    assert find_duplicates(frames) == []
    crystals, _ = read_frames(real_data / "mlearn" / "Li_training.json")
    groups = find_duplicates(crystals)
    assert groups  # strained crystals that the symmetry of the lattice turns into each other
    assert {crystals[index].config_type for group in groups for index in group.members} == {"Elastic"}
    assert not any(group.contradicts for group in groups)
