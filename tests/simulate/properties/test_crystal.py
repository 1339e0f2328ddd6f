import doctest
import sys

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, fcc111, molecule
from ase.calculators.emt import EMT
from ase.calculators.lj import LennardJones
from ase.constraints import FixAtoms

from cliffordstf.errors import ConfigError
from cliffordstf.simulate.guards import SimulationError
from cliffordstf.simulate.properties import bands, equation_of_state, symmetry
from cliffordstf.simulate.properties.crystal import CrystalProperties, PropertySettings, crystal_properties
from cliffordstf.simulate.properties.symmetry import hold_symmetry, space_group
from cliffordstf.simulate.relax import RelaxSettings, relax

pytest.importorskip("phonopy", reason="properties of crystals need phonopy and spglib")


@pytest.fixture(scope="module")
def copper() -> CrystalProperties:
    return crystal_properties(bulk("Cu", a=3.7), EMT(), PropertySettings(supercell=(3, 3, 3)))


def test_copper_has_the_properties_of_its_potential(copper):
    assert copper.space_group.symbol == "Fm-3m"
    assert copper.space_group.lengths_a == pytest.approx((3.5898, 3.5898, 3.5898), abs=1e-3)
    curve = copper.equation_of_state
    assert curve.volume_a3 == pytest.approx(copper.volume_a3_atom, rel=1e-4)
    assert curve.energy_ev == pytest.approx(copper.energy_ev_atom, abs=1e-5)
    # Two ways to the same modulus: energies over volume, and stress over strain.
    assert copper.moduli.bulk_hill_gpa == pytest.approx(curve.bulk_modulus_gpa, rel=5e-3)
    assert copper.moduli.stable
    assert copper.phonons.imaginary == ()
    assert 22 < copper.phonons.heat_capacity_j_k_mol < 24.9


def test_sound_travels_as_the_elastic_tensor_tells(copper):
    """Slopes of the acoustic branches along [100] are sqrt(C11 / density) and sqrt(C44 / density)."""
    slopes = np.sqrt(copper.elastic_gpa[[3, 0], [3, 0]] * 1e9 / (copper.density_g_cm3 * 1e3))  # m/s
    on_way_to_x = next(i for i, q in enumerate(copper.phonons.q) if np.abs(q).max() > 0.03)
    q = np.linalg.inv(bulk("Cu", a=copper.space_group.lengths_a[0]).cell.array) @ copper.phonons.q[on_way_to_x]
    found = copper.phonons.frequencies_thz[on_way_to_x] * 1e12 / (np.linalg.norm(q) * 1e10)
    assert found[0] == pytest.approx(slopes[0], rel=0.03)
    assert found[2] == pytest.approx(slopes[1], rel=0.03)


def test_density_of_states_counts_all_modes(copper):
    phonons = copper.phonons
    step = np.diff(phonons.dos_frequencies_thz)
    assert phonons.dos[:-1] @ step == pytest.approx(3, abs=0.05)
    gamma = np.flatnonzero((phonons.q == 0).all(axis=1))
    np.testing.assert_allclose(phonons.frequencies_thz[gamma], 0, atol=1e-3)
    assert phonons.labels[0] == "Γ"


def test_the_space_group_is_kept_and_the_shape_relaxes():
    atoms = bulk("Ti", "hcp", a=2.9, c=5.2)  # far from the ideal ratio
    atoms.numbers[:] = 29
    atoms.rattle(1e-3, seed=0)
    found = crystal_properties(atoms, EMT(), PropertySettings(phonons=False, elastic=False))
    assert (found.space_group.number, found.space_group.atoms) == (194, 2)
    a, b, c = found.space_group.lengths_a
    assert a == pytest.approx(b, abs=1e-8)
    assert 1.6 < c / a < 1.68
    assert found.elastic_gpa is found.moduli is found.phonons is None
    # At every volume the shape is relaxed: the energies are below those of a scaled cell.
    squeezed = atoms.copy()
    squeezed.set_constraint()
    squeezed.calc = EMT()
    squeezed.set_cell(atoms.cell.array * 0.94 ** (1 / 3), scale_atoms=True)
    assert found.equation_of_state.energies_ev[0] <= squeezed.get_potential_energy() + 1e-7


@pytest.mark.parametrize("lattice_constant", [2.4, 5.0])
def test_a_start_far_away_ends_at_the_same_cell(copper, lattice_constant):
    settings = PropertySettings(phonons=False, elastic=False)
    found = crystal_properties(bulk("Cu", a=lattice_constant), EMT(), settings)
    assert found.space_group.lengths_a == pytest.approx(copper.space_group.lengths_a, abs=1e-4)


def test_at_constant_volume_only_the_shape_changes():
    atoms = bulk("Cu", cubic=True, a=3.7)
    atoms.set_cell(atoms.cell.array * [[1.05], [1], [1]], scale_atoms=True)
    before = atoms.get_volume()
    result = relax(atoms, EMT(), RelaxSettings(fmax=1e-3, cell=True, constant_volume=True))
    assert result.converged
    assert atoms.get_volume() == pytest.approx(before, rel=1e-6)
    np.testing.assert_allclose(result.stress_gpa[:3], result.stress_gpa[:3].mean(), atol=0.05)
    assert abs(result.pressure) > 1


def test_imaginary_modes_are_named():
    """Simple cubic argon is a stationary point from which a close-packed crystal is downhill."""
    atoms = Atoms("Ar", cell=[3.5] * 3, pbc=True)
    calculator = LennardJones(sigma=3.4, epsilon=0.0104, rc=9.0, smooth=True)
    found = crystal_properties(atoms, calculator, PropertySettings(supercell=(4, 4, 4)))
    assert found.space_group.symbol == "Pm-3m"
    assert not found.moduli.stable
    modes = found.phonons.imaginary
    assert modes
    assert all(mode.frequency_thz < 0 for mode in modes)
    assert list(modes) == sorted(modes, key=lambda mode: mode.frequency_thz)
    assert {"X", "M"} & {mode.point for mode in modes}
    assert found.phonons.heat_capacity_j_k_mol is None


def test_symmetry_is_refined_before_it_is_held():
    atoms = bulk("NaCl", "rocksalt", a=5.6, cubic=True)
    atoms.rattle(1e-3, seed=0)
    hold_symmetry(atoms)
    assert space_group(atoms, 1e-6).number == 225


def test_mistakes_are_explained(monkeypatch):
    for atoms, kind in ((fcc111("Cu", (1, 1, 2), vacuum=5), "a slab, periodic in 2"), (molecule("H2O"), "a molecule")):
        with pytest.raises(ConfigError, match=rf"{kind}.* so it has no elastic tensor"):
            crystal_properties(atoms, EMT())
    atoms = bulk("Cu")
    atoms.set_constraint(FixAtoms([0]))
    with pytest.raises(ConfigError, match="has the constraint FixAtoms"):
        crystal_properties(atoms, EMT())
    with pytest.raises(SimulationError, match="Cu is not relaxed after 0 steps"):
        crystal_properties(bulk("Cu", a=3.7), EMT(), PropertySettings(steps=0))
    with pytest.raises(ConfigError, match="points=3 at least 5"):
        equation_of_state.equation_of_state(bulk("Cu"), EMT(), points=3)
    repulsion = LennardJones(sigma=10.0, epsilon=0.1, rc=8.0)
    with pytest.raises(SimulationError, match="has no minimum between"):
        equation_of_state.equation_of_state(bulk("Cu"), repulsion, fmax=1e9)
    monkeypatch.setitem(sys.modules, "spglib", None)
    with pytest.raises(ConfigError, match=r"pip install 'cliffordstf\[properties\]'\.$"):
        crystal_properties(bulk("Cu"), EMT())


@pytest.mark.parametrize("module", [bands, equation_of_state, symmetry])
def test_the_examples_are_right(module):
    result = doctest.testmod(module)
    assert result.failed == 0
    assert result.attempted >= 1
