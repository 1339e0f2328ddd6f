import doctest

import numpy as np
import pytest
from ase import Atoms, units
from ase.build import bulk, molecule
from ase.calculators.lj import LennardJones
from ase.constraints import FixAtoms, FixBondLength
from ase.vibrations import Vibrations as AseVibrations
from ase.vibrations import VibrationsData

import cliffordstf
from cliffordstf.data.structure import FloatArray
from cliffordstf.errors import ConfigError
from cliffordstf.integrations.ase import Calculator
from cliffordstf.simulate import vibrations as module
from cliffordstf.simulate.relax import RelaxSettings, relax
from cliffordstf.simulate.vibrations import Vibrations, rigid_motions, vibrations


@pytest.fixture(scope="module")
def calculator() -> Calculator:
    return Calculator("ethanol-gfn2")


@pytest.fixture(scope="module")
def ethanol(calculator) -> Atoms:
    atoms = molecule("CH3CH2OH")
    assert relax(atoms, calculator, RelaxSettings("bfgs", fmax=5e-4)).converged
    return atoms


@pytest.fixture(scope="module")
def found(ethanol, calculator) -> Vibrations:
    return vibrations(ethanol, calculator)


def test_relaxed_ethanol_is_a_minimum_with_its_known_stretches(found):
    assert found.zero_modes == 6
    assert found.frequencies.shape == (21,)
    assert (np.diff(found.frequencies) >= 0).all()
    assert found.frequencies[0] > 100  # torsions; an imaginary one would be negative
    assert 3300 < found.frequencies[-1] < 3900  # O-H
    assert ((found.frequencies > 2700) & (found.frequencies < 3200)).sum() == 5  # C-H
    assert 1.9 < found.zero_point_energy < 2.3
    assert found.zero_point_energy == pytest.approx(found.data.get_zero_point_energy(), abs=1e-5)


def test_the_stretch_moves_the_hydroxyl(found, ethanol):
    assert found.modes.shape == (21, 9, 3)
    np.testing.assert_allclose(np.linalg.norm(found.modes.reshape(21, -1), axis=1), 1)
    oxygen = ethanol.get_chemical_symbols().index("O")
    distances = ethanol.get_distances(oxygen, range(9))
    hydrogen = next(index for index in range(9) if ethanol[index].symbol == "H" and distances[index] < 1.1)
    motion = found.modes[-1]
    assert np.linalg.norm(motion[hydrogen]) > 0.95
    bond = ethanol.positions[hydrogen] - ethanol.positions[oxygen]
    assert abs(motion[hydrogen] @ bond) / np.linalg.norm(bond) > 0.95


def test_rigid_motions_are_zero_modes_before_they_are_projected_out(found, ethanol, calculator):
    raw = VibrationsData.from_2d(ethanol, calculator.get_hessian(ethanol)).get_frequencies()
    sizes = np.sort(np.abs(raw))
    assert sizes[5] < 10
    assert sizes[6] > 100
    np.testing.assert_allclose(sizes[6:], found.frequencies, atol=0.1)
    kept = np.sort(np.abs(found.data.get_frequencies()))
    assert kept[5] < 1e-3


def test_they_are_those_of_finite_differences(found, ethanol, calculator, tmp_path):
    atoms = ethanol.copy()
    atoms.calc = calculator
    reference = AseVibrations(atoms, name=str(tmp_path / "vibrations"), delta=0.002)
    reference.run()
    np.testing.assert_allclose(reference.get_frequencies().real[6:], found.frequencies, atol=1.5)


class Springs:
    """Harmonic bonds with a stiffness of 5 eV/Å² at rest."""

    def __init__(self, pairs: list[tuple[int, int]], stiffness: float = 5.0) -> None:
        self.pairs, self.stiffness = pairs, stiffness

    def get_forces(self, atoms: Atoms) -> FloatArray:
        return np.zeros((len(atoms), 3))

    def get_hessian(self, atoms: Atoms) -> FloatArray:
        hessian = np.zeros((len(atoms), 3, len(atoms), 3))
        for i, j in self.pairs:
            axis = atoms.positions[i] - atoms.positions[j]
            axis /= np.linalg.norm(axis)
            block = self.stiffness * np.outer(axis, axis)
            for a, b, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
                hessian[a, :, b] += sign * block
        return hessian.reshape(3 * len(atoms), -1)


def test_a_diatomic_has_the_textbook_frequency_and_five_zero_modes():
    atoms = molecule("CO")
    atoms.rotate(30, (1, 2, 3))
    result = vibrations(atoms, Springs([(0, 1)]))
    masses = atoms.get_masses()
    reduced = masses.prod() / masses.sum()
    expected = np.sqrt(5.0 / reduced) * units._hbar * units.m / np.sqrt(units._e * units._amu) / units.invcm
    assert result.zero_modes == 5
    np.testing.assert_allclose(result.frequencies, [expected])
    unstable = vibrations(atoms, Springs([(0, 1)], -5.0))
    np.testing.assert_allclose(unstable.frequencies, [-expected])
    assert unstable.zero_point_energy == 0


@pytest.mark.parametrize(
    ("atoms", "count"),
    [
        (molecule("H2O"), 6),
        (molecule("CO2"), 5),
        (molecule("C2H2"), 5),
        (Atoms("Ar"), 3),
        (bulk("Si"), 3),
        (Atoms("C2", positions=[[0, 0.5, 0], [0, 0, 1.3]], cell=[0, 0, 2.6], pbc=[0, 0, 1]), 4),
        (Atoms("C2", positions=[[0, 0, 0], [0, 0, 1.3]], cell=[0, 0, 2.6], pbc=[0, 0, 1]), 3),
    ],
)
def test_how_many_rigid_motions_there_are(atoms, count):
    found = rigid_motions(atoms)
    assert found.shape == (count, 3 * len(atoms))
    np.testing.assert_allclose(found @ found.T, np.eye(count), atol=1e-12)
    tilted = atoms.copy()
    tilted.rotate(50, (3, 1, 2), rotate_cell=True)
    tilted.translate([50.0, -30.0, 10.0])
    assert len(rigid_motions(tilted)) == count


@pytest.mark.parametrize(("held", "count"), [([], 6), ([0], 3), ([0, 1], 1), ([0, 1, 2], 0), (range(1, 9), 0)])
def test_fixed_atoms_do_not_move_and_take_rigid_motions_away(held, count, ethanol, calculator):
    atoms = ethanol.copy()
    atoms.set_constraint(FixAtoms(list(held)))
    result = vibrations(atoms, calculator)
    assert result.zero_modes == count
    assert len(result.frequencies) == 3 * (9 - len(held)) - count
    assert not result.modes[:, list(held)].any()
    assert result.frequencies[0] > 50


def test_a_crystal_has_three_zero_modes_and_the_gamma_point_of_its_cell():
    atoms = bulk("Ar", cubic=True, crystalstructure="fcc", a=5.2)

    class Analytic(LennardJones):
        def get_hessian(self, atoms: Atoms) -> FloatArray:
            rows = []
            for number in range(3 * len(atoms)):
                moved = []
                for sign in (1, -1):
                    copy = atoms.copy()
                    copy.positions.reshape(-1)[number] += sign * 1e-4
                    moved.append(self.get_forces(copy).ravel())
                rows.append((moved[1] - moved[0]) / 2e-4)
            return np.array(rows)

    result = vibrations(atoms, Analytic(sigma=3.4, epsilon=0.0104, rc=8, smooth=True))
    assert result.zero_modes == 3
    assert len(result.frequencies) == 9
    assert 20 < result.frequencies[0] < result.frequencies[-1] < 100


def test_a_potential_is_enough_and_mistakes_are_explained(ethanol, calculator, found):
    potential = cliffordstf.load("ethanol-gfn2")
    np.testing.assert_allclose(vibrations(ethanol, potential).frequencies, found.frequencies, atol=1e-6)
    strained = molecule("CH3CH2OH")
    strained.rattle(0.05, seed=0)
    with pytest.raises(ConfigError, match=r"largest force on C2H6O is .* relax it first"):
        vibrations(strained, calculator)
    assert vibrations(strained, calculator, max_force=float("inf")).max_force > 0.05
    for constraint, message in ((FixBondLength(0, 1), "FixBondLengths are not"), (FixAtoms(range(9)), "fixed")):
        atoms = ethanol.copy()
        atoms.set_constraint(constraint)
        with pytest.raises(ConfigError, match=message):
            vibrations(atoms, calculator)


def test_the_example_is_right():
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted > 4
