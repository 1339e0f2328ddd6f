import doctest

import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule
from ase.calculators.lj import LennardJones

from cliffordstf.integrations.ase import Calculator
from cliffordstf.simulate.guards import SimulationError
from cliffordstf.simulate.properties import molecule as module
from cliffordstf.simulate.properties.molecule import molecule_properties, rotational_constants


@pytest.fixture(scope="module")
def calculator() -> Calculator:
    return Calculator("ethanol-gfn2")


def test_ethanol_is_a_minimum_with_three_rotational_constants(calculator):
    atoms = molecule("CH3CH2OH")
    atoms.rattle(0.05, seed=0)
    found = molecule_properties(atoms, calculator)
    assert found.max_force_ev_a < 1e-4
    assert found.frequencies_cm.shape == (21,)
    assert found.imaginary == ()
    a, b, c = found.rotational_constants_ghz
    assert (a, b, c) == pytest.approx((34.9, 9.35, 8.14), rel=0.03)  # trans ethanol, measured


class Argon(LennardJones):
    """With a Hessian by differences."""

    def __init__(self):
        super().__init__(sigma=3.4, epsilon=0.0104, rc=30.0)

    def get_hessian(self, atoms):
        rows = []
        for number in range(3 * len(atoms)):
            moved = []
            for sign in (1, -1):
                copy = atoms.copy()
                copy.positions.reshape(-1)[number] += sign * 1e-4
                moved.append(self.get_forces(copy).ravel())
            rows.append((moved[0] - moved[1]) / -2e-4)
        return np.array(rows)


def test_a_saddle_names_what_moves():
    """Three argon atoms in a line stay there while they relax, for no force leads away; two bends lower the energy."""
    atoms = Atoms("Ar3", positions=[[0, 0, 0], [3.8, 0, 0], [7.6, 0, 0]])
    found = molecule_properties(atoms, Argon(), fmax=1e-5)
    assert found.frequencies_cm.shape == (4,)
    assert (found.frequencies_cm[:2] < -1).all()
    assert (found.frequencies_cm[2:] > 10).all()
    assert len(found.imaginary) == 2
    assert all(set(moving.split()) == {"Ar0", "Ar1", "Ar2"} for moving in found.imaginary)
    assert found.imaginary[0].startswith("Ar1")


def test_rotational_constants_have_the_symmetry_of_the_molecule():
    assert len(rotational_constants(molecule("CO2"))) == 2
    methane = rotational_constants(molecule("CH4"))
    np.testing.assert_allclose(methane, methane[0], rtol=1e-3)
    assert methane[0] == pytest.approx(5.24, abs=0.1)  # measured
    assert rotational_constants(Atoms("Ar")) == ()


def test_an_atom_has_no_modes(calculator):
    found = molecule_properties(Atoms("H"), calculator)
    assert found.frequencies_cm.shape == (0,)
    assert found.rotational_constants_cm == ()
    assert found.zero_point_energy_ev == 0


def test_a_relaxation_that_is_too_short_is_an_error(calculator):
    with pytest.raises(SimulationError, match=r"C2H6O has a force of .* after 1 steps"):
        molecule_properties(molecule("CH3CH2OH"), calculator, steps=1)


def test_the_example_is_right():
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted > 4
