import numpy as np
import pytest
from ase.build import molecule

from cliffordstf.data.structure import Structure, as_structure, element_numbers
from cliffordstf.errors import ConfigError, StructureError


def test_nan_positions_are_one_clear_error():
    positions = np.zeros((3, 3))
    positions[1, 2] = np.nan
    with pytest.raises(
        StructureError, match=r"water.xyz, frame 3 has a position that is not a finite number \(atom 1, H"
    ):
        Structure(np.array([8, 1, 1]), positions, name="water.xyz, frame 3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"numbers": [], "positions": np.zeros((0, 3))}, "holds no atoms"),
        ({"numbers": [1, 1], "positions": np.zeros((3, 3))}, "2 atomic numbers but 3 positions"),
        ({"numbers": [1], "positions": np.zeros((1, 3)), "pbc": True}, "lattice vectors there are zero or parallel"),
        ({"numbers": [1], "positions": np.zeros((1, 3)), "cell": np.full((3, 3), np.inf)}, "not finite"),
    ],
)
def test_bad_structures_are_refused(arguments, message):
    with pytest.raises(StructureError, match=message):
        Structure(**arguments)


def test_from_ase():
    structure = as_structure(molecule("H2O"))
    assert structure.numbers.tolist() == [8, 1, 1]
    assert not structure.pbc.any()
    assert as_structure(structure) is structure
    with pytest.raises(StructureError, match="got str"):
        as_structure("H2O")


def test_element_numbers():
    assert element_numbers(["O", "H", 6, "C"]) == (1, 6, 8)
    assert element_numbers(None) == tuple(range(1, 101))
    with pytest.raises(ConfigError, match="'Xy' is not a chemical symbol"):
        element_numbers(["Xy"])
    with pytest.raises(ConfigError, match="at least one element"):
        element_numbers([])
