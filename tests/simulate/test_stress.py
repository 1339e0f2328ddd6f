import doctest

import numpy as np
import pytest
from ase import units
from ase.build import bulk, molecule
from ase.calculators.emt import EMT
from ase.calculators.lj import LennardJones

from cliffordstf.simulate import stress
from cliffordstf.simulate.drift import Box, BoxMeans
from cliffordstf.simulate.stress import components, density, potential_stress, pressure


def test_an_ideal_gas_has_its_pressure():
    atoms = bulk("Ar", cubic=True, crystalstructure="fcc", a=10.0)
    atoms.calc = LennardJones(epsilon=0.0)
    atoms.set_momenta(np.random.default_rng(0).normal(size=(4, 3)))
    temperature = 2 * atoms.get_kinetic_energy() / (3 * len(atoms) * units.kB)
    pascals = len(atoms) * 1.380649e-23 * temperature / (1000.0e-30)
    assert pressure(atoms) == pytest.approx(pascals / 1e9, rel=1e-6)
    assert pressure(atoms) > 1e-4


def test_pressure_is_positive_under_compression_and_minus_the_slope_of_the_energy():
    def energy(a: float) -> float:
        return float(EMT().get_potential_energy(bulk("Cu", a=a)))

    for a, sign in ((3.45, 1), (3.75, -1)):
        atoms = bulk("Cu", a=a)
        atoms.calc = EMT()
        volumes = [((a + step) ** 3) / 4 for step in (-1e-4, 1e-4)]
        slope = (energy(a + 1e-4) - energy(a - 1e-4)) / (volumes[1] - volumes[0])
        assert pressure(atoms) == pytest.approx(-slope / units.GPa, rel=1e-4)
        assert sign * pressure(atoms) > 5


def test_density_of_water():
    atoms = molecule("H2O", cell=[3.1045] * 3, pbc=True)  # 29.92 Å³, as in the liquid
    assert density(atoms) == pytest.approx(1.0, abs=1e-3)


def test_structures_without_a_volume_or_calculators_without_stress_have_none():
    atoms = molecule("CO2")
    atoms.calc = EMT()
    assert potential_stress(atoms) is None
    boxed = molecule("CO2", cell=[9, 9, 9], pbc=True)
    boxed.calc = EMT()
    assert potential_stress(boxed).shape == (6,)


def test_means_are_over_everything_that_was_added():
    means = BoxMeans()
    assert means.means() is None
    for value in range(5):
        means.add(Box(value, 2.0 * value, -value))
    assert means.means() == Box(2.0, 4.0, -2.0)


def test_components_are_named_in_voigt_order():
    text = components(np.arange(6.0))
    assert text.split()[::2][:6] == ["xx", "yy", "zz", "yz", "xz", "xy"]
    assert [float(word) for word in text.split()[1::2]] == [0, 1, 2, 3, 4, 5]
    assert text.endswith(" GPa")


def test_the_examples_are_right():
    assert doctest.testmod(stress) == doctest.TestResults(failed=0, attempted=4)
