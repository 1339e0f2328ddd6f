import numpy as np
from ase.build import bulk, molecule

from cliffordstf.data.bonds import LARGEST_MOLECULE, bonded_pairs, is_one_molecule
from cliffordstf.data.structure import Structure


def test_bonds_of_ethanol_are_found():
    atoms = molecule("CH3CH2OH")
    pairs = bonded_pairs(atoms.numbers, atoms.positions)
    kinds = sorted("".join(sorted(atoms.symbols[i] for i in pair)) for pair in pairs)
    assert kinds == ["CC", "CH", "CH", "CH", "CH", "CH", "CO", "HO"]


def test_one_molecule_is_told_from_two_and_from_a_crystal():
    ethanol = molecule("CH3CH2OH")
    one = Structure(ethanol.numbers, ethanol.positions)
    numbers = np.concatenate([ethanol.numbers, ethanol.numbers])
    two = Structure(numbers, np.concatenate([ethanol.positions, ethanol.positions + np.array([6.0, 0, 0])]))
    copper = bulk("Cu", cubic=True)
    assert is_one_molecule(one)
    assert not is_one_molecule(two)
    assert not is_one_molecule(Structure(copper.numbers, copper.positions, copper.cell.array, copper.pbc))
    assert is_one_molecule(Structure([1], [[0.0, 0, 0]]))


def test_large_structures_are_not_taken_for_a_molecule():
    chain = np.arange(LARGEST_MOLECULE + 1)[:, None] * [1.5, 0.0, 0.0]
    assert is_one_molecule(Structure([6] * LARGEST_MOLECULE, chain[:-1]))
    assert not is_one_molecule(Structure([6] * (LARGEST_MOLECULE + 1), chain))
