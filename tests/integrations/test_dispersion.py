import doctest
import sys

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, fcc111, molecule
from ase.calculators.calculator import PropertyNotImplementedError
from ase.calculators.emt import EMT
from ase.calculators.fd import calculate_numerical_forces, calculate_numerical_stress
from ase.units import Bohr, Hartree

import cliffordstf
from cliffordstf.errors import ConfigError, StructureError, UnknownElementError
from cliffordstf.integrations import dispersion
from cliffordstf.integrations.ase import Calculator
from cliffordstf.integrations.dispersion import D3, D3Calculator, functionals, with_d3

dftd3_ase = pytest.importorskip("dftd3.ase")


def benzene() -> Atoms:
    atoms = molecule("C6H6")
    atoms.rattle(0.05, seed=0)
    return atoms


def argon() -> Atoms:
    atoms = bulk("Ar", cubic=True, crystalstructure="fcc", a=5.2)
    atoms.rattle(0.1, seed=1)
    atoms.set_cell(atoms.cell.array + np.array([[0, 0.2, 0], [0, 0, 0.1], [0.3, 0, 0]]), scale_atoms=True)
    return atoms


def numerical_stress(atoms: Atoms) -> np.ndarray:
    """Long strains: pairs that cross the cutoff of the dispersion make steps in the energy, 0.05 % of the stress."""
    return calculate_numerical_stress(atoms, eps=5e-4)


def boxed_benzene() -> Atoms:
    """A molecule with a volume: no pair comes near the cutoff."""
    atoms = benzene()
    atoms.set_cell([[9, 0, 0], [1, 10, 0], [0, 2, 8]])
    return atoms


def slab() -> Atoms:
    atoms = fcc111("Cu", (1, 1, 2))
    assert not atoms.cell.array[2].any()
    return atoms


@pytest.mark.parametrize("make", [benzene, argon])
@pytest.mark.parametrize("functional", ["pbe", "B3LYP"])
def test_it_is_what_the_library_gives_ase(make, functional):
    atoms = make()
    found = D3(functional).evaluate(atoms)
    atoms.calc = dftd3_ase.DFTD3(method=functional, damping="d3bj", params_tweaks={"method": functional, "atm": False})
    assert found.energy == pytest.approx(atoms.get_potential_energy(), abs=1e-12)
    assert found.energy < -0.1
    np.testing.assert_allclose(found.forces, atoms.get_forces(), atol=1e-12)
    if atoms.pbc.any():
        atoms.calc, reference = D3Calculator(functional), atoms.get_stress()
        np.testing.assert_allclose(atoms.get_stress(), reference, atol=1e-14)
        assert np.abs(reference).min() > 1e-6


@pytest.mark.parametrize("make", [benzene, argon])
def test_forces_and_stress_are_derivatives_of_the_energy(make):
    atoms = make()
    atoms.calc = D3Calculator("pbe")
    np.testing.assert_allclose(atoms.get_forces(), calculate_numerical_forces(atoms, eps=1e-4), atol=1e-7)
    assert np.abs(atoms.get_forces()).max() > 1e-3
    if atoms.pbc.any():
        np.testing.assert_allclose(atoms.get_stress(), numerical_stress(atoms), atol=5e-6)
        assert atoms.get_stress()[:3].min() > 1e-3  # it pulls the crystal together


def test_the_stress_without_truncated_pairs_is_exact():
    atoms = boxed_benzene()
    atoms.calc = D3Calculator("pbe")
    np.testing.assert_allclose(atoms.get_stress(), calculate_numerical_stress(atoms, eps=1e-5), atol=1e-10)
    assert np.abs(atoms.get_stress()).max() > 1e-5


@pytest.mark.parametrize("make", [benzene, argon])
def test_the_hessian_is_the_derivative_of_the_forces(make):
    atoms, correction, step = make(), D3("pbe"), 1e-4
    found = correction.hessian(atoms)
    assert found.shape == (len(atoms), 3, len(atoms), 3)
    moved = []
    for sign in (1, -1):
        copy = atoms.copy()
        copy.positions[1, 2] += sign * step
        moved.append(correction.evaluate(copy).forces)
    np.testing.assert_allclose(found[1, 2], (moved[1] - moved[0]) / (2 * step), atol=1e-7)
    np.testing.assert_array_equal(D3Calculator("pbe").get_hessian(atoms), found.reshape(3 * len(atoms), -1))


def test_two_argon_atoms_attract_with_the_known_c6_coefficient():
    correction = D3("pbe")

    def energy(distance: float) -> float:
        return correction.evaluate(Atoms("Ar2", positions=[[0, 0, 0], [0, 0, distance]])).energy

    assert energy(4.0) < energy(5.0) < energy(8.0) < 0
    exponent = np.log(energy(14.0) / energy(28.0)) / np.log(2)
    assert exponent == pytest.approx(6, abs=0.15)
    c6 = -energy(28.0) * (28.0 / Bohr) ** 6 / Hartree
    assert 60 < c6 < 70  # 64.3 atomic units from oscillator strengths


def test_energies_of_atoms_add_up():
    for atoms in (benzene(), argon()):
        energies = D3("pbe").atom_energies(atoms)
        assert energies.shape == (len(atoms),)
        assert energies.sum() == pytest.approx(D3("pbe").evaluate(atoms).energy, abs=1e-10)
        assert (energies < 0).all()


def test_a_slab_without_a_third_lattice_vector_is_one_with_vacuum():
    flat, thick = slab(), fcc111("Cu", (1, 1, 2), vacuum=30.0)
    found = D3("pbe").evaluate(flat)
    assert found.stress is None
    assert found.energy == pytest.approx(D3("pbe").evaluate(thick).energy, abs=1e-10)
    assert D3("pbe").evaluate(thick).stress is not None
    flat.calc = D3Calculator("pbe")
    with pytest.raises(PropertyNotImplementedError, match="no three-dimensional cell"):
        flat.get_stress()


def test_it_adds_to_any_calculator():
    atoms = bulk("Cu", cubic=True)
    atoms.rattle(0.1, seed=0)
    alone = D3("revpbe").evaluate(atoms)
    atoms.calc = EMT()
    energy, forces, stress = atoms.get_potential_energy(), atoms.get_forces(), atoms.get_stress(voigt=False)
    atoms.calc = with_d3(EMT(), "revpbe")
    assert atoms.get_potential_energy() == pytest.approx(energy + alone.energy, abs=1e-10)
    np.testing.assert_allclose(atoms.get_forces(), forces + alone.forces, atol=1e-12)
    np.testing.assert_allclose(atoms.get_stress(voigt=False), stress + alone.stress, atol=1e-12)


@pytest.fixture(scope="module")
def members() -> list[cliffordstf.Potential]:
    return [cliffordstf.build("default/small", elements=["H", "C", "Ar"], seed=seed, channels=8) for seed in range(2)]


@pytest.mark.parametrize("make", [benzene, argon])
def test_the_calculator_adds_it_once_to_everything(make, members):
    atoms = make()
    alone = D3("pbe").evaluate(atoms)
    plain, corrected = Calculator(members), Calculator(members, dispersion="pbe")
    energy = corrected.get_potential_energy(atoms)
    assert energy - plain.get_potential_energy(atoms) == pytest.approx(alone.energy, abs=1e-12)
    assert corrected.get_property("free_energy", atoms) == energy
    np.testing.assert_allclose(corrected.get_forces(atoms) - plain.get_forces(atoms), alone.forces, atol=1e-12)
    assert "energies" not in corrected.results
    assert corrected.get_potential_energies(atoms).sum() == pytest.approx(energy, abs=1e-10)
    if atoms.pbc.any():
        difference = corrected.get_stress(atoms) - plain.get_stress(atoms)
        np.testing.assert_allclose(difference, np.ravel(alone.stress)[[0, 4, 8, 5, 2, 1]], atol=1e-14)
    assert corrected.uncertainty == pytest.approx(plain.uncertainty, abs=1e-14)
    difference = corrected.get_hessian(atoms) - plain.get_hessian(atoms)
    np.testing.assert_allclose(difference, D3Calculator("pbe").get_hessian(atoms), atol=1e-12)


def test_the_sum_is_conservative(members):
    atoms = argon()
    atoms.calc = Calculator(members[0], dispersion="pbe")
    np.testing.assert_allclose(atoms.get_forces(), calculate_numerical_forces(atoms, eps=1e-4), atol=1e-6)
    np.testing.assert_allclose(atoms.get_stress(), numerical_stress(atoms), atol=5e-6)


def test_functionals_are_found_in_every_case_and_unknown_ones_are_explained(members):
    assert {"pbe", "revpbe", "b3lyp", "r2scan"} <= set(functionals())
    assert len(functionals()) > 100
    assert D3("PBE").evaluate(benzene()).energy == D3("pbe").evaluate(benzene()).energy
    with pytest.raises(ConfigError, match=r"functional 'pbsol' \(did you mean 'pbesol'\?\)"):
        Calculator(members, dispersion="pbsol")


def test_a_missing_package_is_one_sentence(monkeypatch, members):
    monkeypatch.setitem(sys.modules, "dftd3", None)
    with pytest.raises(ConfigError, match=r"not installed: pip install 'cliffordstf\[d3\]'\.$"):
        Calculator(members, dispersion="pbe")
    assert np.isfinite(Calculator(members).get_potential_energy(benzene()))


def test_an_old_package_has_no_hessian(monkeypatch):
    correction = D3("pbe")
    monkeypatch.delattr(correction._interface.DispersionModel, "get_hessian")
    with pytest.raises(ConfigError, match=r"dftd3 1\.6 or newer"):
        correction.hessian(benzene())


def test_structures_that_d3_cannot_take_are_errors():
    with pytest.raises(UnknownElementError, match="holds Ds, for which D3 has no coefficients"):
        D3("pbe").evaluate(Atoms("DsH", positions=[[0, 0, 0], [0, 0, 2.0]]))
    assert D3("pbe").evaluate(Atoms("Pu2", positions=[[0, 0, 0], [0, 0, 4.0]])).energy < 0
    with pytest.raises(StructureError, match="atoms that are too close"):
        D3("pbe").evaluate(Atoms("H2", positions=[[0, 0, 0], [0, 0, 0]]))
    with pytest.raises(ConfigError, match="seen no atoms"):
        D3Calculator("pbe").get_hessian()


def test_the_examples_are_right():
    result = doctest.testmod(dispersion)
    assert result.failed == 0
    assert result.attempted > 4
