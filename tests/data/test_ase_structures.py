import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms
from ase.io import read, write

from cliffordstf.data.ase_structures import read_structure, read_structures, without_labels
from cliffordstf.data.options import ReadOptions
from cliffordstf.errors import DataError


@pytest.fixture
def waters(tmp_path):
    """A file with three molecules that move, whose first atom is fixed."""
    images = []
    for index in range(3):
        atoms = molecule("H2O")
        atoms.positions += 0.1 * index
        atoms.set_velocities(np.full((3, 3), 0.01 * (index + 1)))
        atoms.set_constraint(FixAtoms([0]))
        atoms.calc = SinglePointCalculator(atoms, energy=-1.0 - index, forces=np.ones((3, 3)))
        images.append(atoms)
    path = tmp_path / "waters.extxyz"
    write(path, images, columns=["symbols", "positions", "momenta", "move_mask"])
    return path


def test_velocities_and_constraints_come_with_the_structures(waters):
    structures = read_structures(waters)
    for index, atoms in enumerate(structures):
        np.testing.assert_allclose(atoms.get_velocities()[1:], 0.01 * (index + 1), rtol=1e-6)
        assert list(atoms.constraints[0].index) == [0]
    assert len(structures) == 3


def test_one_structure_is_the_last_unless_another_is_asked_for(waters):
    assert read_structure(waters).positions[0, 0] == pytest.approx(molecule("H2O").positions[0, 0] + 0.2)
    assert read_structure(waters, 0).positions[0, 0] == pytest.approx(molecule("H2O").positions[0, 0])
    with pytest.raises(DataError, match="holds 3 structures, so there is none with index 3"):
        read_structure(waters, 3)


def test_lengths_are_converted(waters):
    options = ReadOptions(units={"length": "Bohr"})
    converted = read_structure(waters, 0, options).positions
    np.testing.assert_allclose(converted, read_structure(waters, 0).positions * 0.529177, rtol=1e-5)


def test_a_copy_without_labels_can_be_written_with_new_ones(tmp_path):
    atoms = molecule("H2O")
    atoms.info["energy"], atoms.info["note"] = -1.0, "kept"
    atoms.arrays["forces"] = np.ones((3, 3))
    atoms.calc = SinglePointCalculator(atoms, energy=-1.0)
    clean = without_labels(atoms)
    assert isinstance(clean, Atoms)
    assert clean.calc is None
    assert clean.info == {"note": "kept"}
    assert set(clean.arrays) == {"numbers", "positions"}
    assert atoms.info["energy"] == -1.0
    clean.calc = SinglePointCalculator(clean, energy=-2.0)
    write(tmp_path / "new.extxyz", clean)
    assert read(tmp_path / "new.extxyz").get_potential_energy() == -2.0
