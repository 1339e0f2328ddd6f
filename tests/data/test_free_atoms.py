import numpy as np
import pytest

from cliffordstf.data.frame import Frame
from cliffordstf.data.free_atoms import mask_fixed_atoms
from cliffordstf.data.structure import Structure
from cliffordstf.errors import ConfigError, StructureError

PAIR = Structure(np.array([1, 1]), np.eye(2, 3))


def test_forces_on_fixed_atoms_are_masked():
    forces = np.ones((2, 3))
    given = [Frame(PAIR, forces=forces, fixed=np.array([True, False])), Frame(PAIR, forces=forces), Frame(PAIR)]
    masked, warnings = mask_fixed_atoms(given, "a.traj")
    assert np.isnan(masked[0].forces[0]).all()
    np.testing.assert_array_equal(masked[0].forces[1], 1)
    np.testing.assert_array_equal(masked[1].forces, 1)
    np.testing.assert_array_equal(forces, 1)
    assert warnings == ["2 of 3 structures of a.traj name no fixed atoms: all count as free."]


def test_data_without_a_mask_are_an_error():
    with pytest.raises(
        ConfigError, match=r"data\.free_atoms_only needs to know which atoms are fixed, but a\.xyz does"
    ):
        mask_fixed_atoms([Frame(PAIR, forces=np.ones((2, 3)))], "a.xyz")


def test_a_mask_has_one_entry_per_atom():
    with pytest.raises(StructureError, match=r"has 2 atoms but a mask of fixed atoms of shape \(3,\)"):
        Frame(PAIR, fixed=np.zeros(3, dtype=bool))
