import doctest
import sys

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.emt import EMT

import cliffordstf
from cliffordstf.errors import ConfigError
from cliffordstf.integrations.ase import Calculator
from cliffordstf.simulate import phonons as module
from cliffordstf.simulate.phonons import phonons
from cliffordstf.simulate.relax import RelaxSettings, relax

pytest.importorskip("phonopy")


@pytest.fixture(scope="module")
def copper() -> Atoms:
    atoms = bulk("Cu", a=3.6)
    assert relax(atoms, EMT(), RelaxSettings("bfgs", fmax=1e-4, cell=True)).converged
    return atoms


def frequencies(phonon: object, point: tuple[float, float, float]) -> np.ndarray:
    phonon.run_qpoints([point])
    return phonon.qpoints.frequencies[0]


@pytest.mark.parametrize("symmetrize", [True, False])
def test_copper_has_acoustic_modes_and_a_sensible_band_width(copper, symmetrize):
    phonon = phonons(copper, EMT(), (3, 3, 3), symmetrize=symmetrize)
    np.testing.assert_allclose(frequencies(phonon, (0, 0, 0)), 0, atol=1e-3)
    transverse, other, longitudinal = frequencies(phonon, (0.5, 0.5, 0.0))  # X
    assert transverse == pytest.approx(other, abs=1e-4)
    assert 4 < transverse < longitudinal
    phonon.run_mesh((6, 6, 6), is_gamma_center=True)
    assert 6 < phonon.mesh.frequencies.max() < 9
    assert phonon.mesh.frequencies.min() > -1e-3
    phonon.run_thermal_properties(t_min=300, t_max=300, t_step=1, cutoff_frequency=1e-3)
    # Three vibrations of one atom: a little below the 24.9 J/K/mol of Dulong and Petit.
    assert 22 < phonon.thermal_properties.heat_capacity[-1] < 24.9


def test_the_cubic_cell_and_a_matrix_give_the_same_crystal(copper):
    lattice_constant = copper.get_volume() ** (1 / 3) * 4 ** (1 / 3)
    cubic = bulk("Cu", cubic=True, a=lattice_constant)
    as_matrix = [[-2, 2, 2], [2, -2, 2], [2, 2, -2]]
    whole = phonons(cubic, EMT(), (2, 2, 2))
    assert len(whole.primitive) == 1
    same = phonons(copper, EMT(), as_matrix)
    for point in ((0.5, 0.5, 0.0), (0.5, 0.25, 0.75)):
        np.testing.assert_allclose(frequencies(whole, point), frequencies(same, point), atol=2e-3)


@pytest.mark.parametrize(("rattle", "supercell"), [(0.0, (2, 2, 2)), (0.05, (2, 1, 1))])
def test_force_constants_are_the_hessian_of_the_supercell(rattle, supercell):
    potential = cliffordstf.build("default/small", elements=["Si"], seed=0, channels=8, energy_scale=10.0)
    cell = bulk("Si")
    cell.rattle(rattle, seed=0)
    phonon = phonons(cell, Calculator(potential), supercell, displacement=1e-3, symmetrize=False)
    large = phonon.supercell
    atoms = Atoms(large.symbols, positions=large.positions, cell=large.cell, pbc=True)
    hessian = potential.hessian(atoms).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(phonon.force_constants, hessian, atol=5e-6)
    assert np.abs(hessian).max() > 0.05


def test_a_cell_that_is_primitive_keeps_its_lattice_vectors_and_a_relaxed_one_its_symmetry():
    cell = bulk("Si")
    calculator = Calculator(cliffordstf.build("default/small", elements=["Si"], seed=0, channels=4))
    np.testing.assert_allclose(phonons(cell, calculator, (1, 1, 1)).primitive.cell, cell.cell.array)
    cubic = bulk("Si", cubic=True)
    cubic.rattle(1e-4, seed=0)
    sizes = [len(phonons(cubic, calculator, (1, 1, 1), symprec=tolerance).primitive) for tolerance in (1e-5, 1e-2)]
    assert sizes == [8, 2]


def test_masses_are_those_of_the_atoms(copper):
    heavy = copper.copy()
    heavy.set_masses([4 * copper.get_masses()[0]])
    light_modes = frequencies(phonons(copper, EMT(), (2, 2, 2)), (0.5, 0.5, 0))
    heavy_modes = frequencies(phonons(heavy, EMT(), (2, 2, 2)), (0.5, 0.5, 0))
    np.testing.assert_allclose(heavy_modes, light_modes / 2, rtol=1e-6)


def test_mistakes_are_explained(copper, monkeypatch):
    with pytest.raises(ConfigError, match="not periodic in three directions, so it has no phonons"):
        phonons(molecule("H2O"), EMT())
    for wrong in ((0, 2, 2), (2, 2), (1.5, 2, 2)):
        with pytest.raises(ConfigError, match="three repeats above zero"):
            phonons(copper, EMT(), wrong)
    with pytest.raises(ConfigError, match=r"displacement=0 must be a length"):
        phonons(copper, EMT(), displacement=0)
    monkeypatch.setitem(sys.modules, "phonopy", None)
    with pytest.raises(ConfigError, match=r"not installed: pip install 'cliffordstf\[phonopy\]'\.$"):
        phonons(copper, EMT())


def test_the_example_is_right():
    assert doctest.testmod(module) == doctest.TestResults(failed=0, attempted=5)
