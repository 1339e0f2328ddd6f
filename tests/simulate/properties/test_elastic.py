import doctest

import numpy as np
import pytest
from ase.build import bulk, fcc111
from ase.calculators.emt import EMT
from ase.units import GPa

import cliffordstf
from cliffordstf.errors import ConfigError
from cliffordstf.integrations.ase import Calculator
from cliffordstf.simulate.guards import SimulationError
from cliffordstf.simulate.properties import elastic as module
from cliffordstf.simulate.properties.elastic import elastic_tensor, moduli, strained
from cliffordstf.simulate.relax import RelaxSettings, relax


def relaxed_energy(atoms, calculator, strain):
    copy = strained(atoms, np.asarray(strain))
    assert relax(copy, calculator, RelaxSettings(fmax=2e-6)).converged
    return copy.get_potential_energy()


def test_strains_are_symmetric_with_engineering_shears():
    cubic = bulk("Cu", cubic=True, a=2.0)
    np.testing.assert_allclose(
        strained(cubic, np.array([0.1, 0, 0, 0.2, 0, 0.04])).cell.array / 2,
        [[1.1, 0.02, 0], [0.02, 1, 0.1], [0, 0.1, 1]],
    )


def test_it_is_the_second_derivative_of_the_energy_with_relaxed_ions():
    potential = cliffordstf.build("default/small", elements=["Si"], seed=1, channels=8, energy_scale=20.0)
    calculator = Calculator(potential)
    atoms = bulk("Si", a=5.2)
    assert relax(atoms, calculator, RelaxSettings(fmax=1e-6, cell=True, steps=2000)).converged
    tensor = elastic_tensor(atoms, calculator, strain=0.002, fmax=1e-6)
    assert np.abs(tensor).max() > 1
    step, volume = 0.004, atoms.get_volume()
    for i, j in ((0, 0), (0, 1), (3, 3), (0, 3)):
        energies = []
        for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            strain = np.zeros(6)
            strain[i] += a * step / 2
            strain[j] += b * step / 2
            energies.append(relaxed_energy(atoms, calculator, strain))
        expected = (energies[0] - energies[1] - energies[2] + energies[3]) / (step**2 * volume * GPa)
        assert tensor[i, j] == pytest.approx(expected, abs=2e-3 * np.abs(tensor).max())


def test_ions_relax_under_shear():
    """In diamond a shear moves the two sublattices, which softens C44."""
    calculator = Calculator(cliffordstf.build("default/small", elements=["Si"], seed=1, channels=8, energy_scale=20.0))
    atoms = bulk("Si", a=5.2)
    relax(atoms, calculator, RelaxSettings(fmax=1e-5, cell=True))
    free = elastic_tensor(atoms, calculator)
    clamped = elastic_tensor(atoms, calculator, fmax=1e3)
    assert 0 < free[3, 3] < 0.999 * clamped[3, 3]
    np.testing.assert_allclose(free[:3, :3], clamped[:3, :3], rtol=1e-6)  # held by symmetry


def test_a_turned_crystal_has_the_turned_tensor():
    straight, turned = bulk("Cu", a=3.59), bulk("Cu", a=3.59)
    turned.rotate(45, "z", rotate_cell=True)
    one, other = elastic_tensor(straight, EMT()), elastic_tensor(turned, EMT())
    # C'11 = (C11 + C12) / 2 + C44, C'66 = (C11 - C12) / 2
    assert other[0, 0] == pytest.approx((one[0, 0] + one[0, 1]) / 2 + one[3, 3], rel=1e-3)
    assert other[5, 5] == pytest.approx((one[0, 0] - one[0, 1]) / 2, rel=1e-3)


def test_moduli_of_a_cubic_crystal_are_those_of_the_textbook():
    c11, c12, c44 = 168.4, 121.4, 75.4  # copper, measured
    tensor = np.diag([c11 - c12] * 3 + [c44] * 3) + c12 * np.pad(np.ones((3, 3)), (0, 3))
    found = moduli(tensor)
    assert found.stable
    assert found.bulk_voigt_gpa == found.bulk_hill_gpa == pytest.approx((c11 + 2 * c12) / 3)
    assert found.shear_voigt_gpa == pytest.approx((c11 - c12 + 3 * c44) / 5)
    assert found.shear_reuss_gpa == pytest.approx(5 * (c11 - c12) * c44 / (4 * c44 + 3 * (c11 - c12)))
    assert found.young_gpa == pytest.approx(2 * found.shear_hill_gpa * (1 + found.poisson))
    np.testing.assert_allclose(found.eigenvalues_gpa, np.sort([c11 - c12] * 2 + [2 * c44] * 3 + [c11 + 2 * c12]))
    isotropic = moduli(np.diag([c11 - c12] * 3 + [(c11 - c12) / 2] * 3) + c12 * np.pad(np.ones((3, 3)), (0, 3)))
    assert isotropic.anisotropy == pytest.approx(0, abs=1e-12)


def test_an_unstable_crystal_is_called_so():
    tensor = np.diag([100.0, 100, 100, 30, 30, -1])
    found = moduli(tensor)
    assert not found.stable
    assert found.eigenvalues_gpa[0] == pytest.approx(-2)
    assert found.young_gpa is None


def test_mistakes_are_explained():
    with pytest.raises(ConfigError, match="Cu2 is not periodic in three directions, so it has no elastic tensor"):
        elastic_tensor(fcc111("Cu", (1, 1, 2), vacuum=5), EMT())
    with pytest.raises(ConfigError, match=r"strain=0 must be between 0 and 0\.1"):
        elastic_tensor(bulk("Cu"), EMT(), strain=0)
    atoms = bulk("Cu", cubic=True)
    atoms.rattle(0.1, seed=0)
    with pytest.raises(SimulationError, match=r"strain 1 of 6: forces are .* after 0 steps"):
        elastic_tensor(atoms, EMT(), steps=0)


def test_the_example_is_right():
    assert doctest.testmod(module) == doctest.TestResults(failed=0, attempted=6)
