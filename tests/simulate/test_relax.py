import warnings
from dataclasses import replace

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.calculator import Calculator
from ase.calculators.emt import EMT
from ase.calculators.lj import LennardJones
from ase.constraints import FixAtoms
from ase.filters import FrechetCellFilter
from ase.io import read
from ase.units import GPa

from cliffordstf.errors import ConfigError
from cliffordstf.simulate.relax import RelaxSettings, _optimizer, relax


@pytest.mark.parametrize("optimizer", ["fire", "lbfgs", "bfgs"])
def test_every_optimizer_finds_the_minimum(optimizer):
    atoms = molecule("CO2")
    atoms.rattle(0.05, seed=0)
    seen = []
    result = relax(atoms, EMT(), RelaxSettings(optimizer, fmax=0.005), on_step=lambda *step: seen.append(step))
    assert result.converged
    assert result.max_force < 0.005
    assert seen[-1] == (result.steps, result.max_force)
    assert [step for step, _ in seen] == list(range(result.steps + 1))
    assert result.energy == atoms.get_potential_energy()
    best = molecule("CO2")
    relax(best, EMT(), RelaxSettings("bfgs", fmax=0.0005))
    assert result.energy == pytest.approx(best.get_potential_energy(), abs=1e-4)
    assert 0.01 < result.max_displacement < 0.5


def test_the_cell_relaxes_to_the_pressure(tmp_path):
    for pressure in (0.0, 5.0):
        atoms = bulk("Cu")
        atoms.set_cell(atoms.cell.array * 1.03 + [[0, 0.1, 0], [0, 0, 0], [0, 0, 0]], scale_atoms=True)
        atoms.rattle(0.02, seed=0)
        trajectory = tmp_path / f"{pressure}.traj"
        settings = RelaxSettings("lbfgs", fmax=0.002, cell=True, pressure=pressure, trajectory=trajectory)
        result = relax(atoms, EMT(), settings)
        assert result.converged
        np.testing.assert_allclose(atoms.get_stress() / GPa, [-pressure] * 3 + [0] * 3, atol=0.05)
        frames = read(trajectory, ":")
        assert len(frames) == result.steps + 1
        assert np.array_equal(frames[-1].positions, atoms.positions)
        assert frames[0].get_volume() > frames[-1].get_volume()


def skewed_alloy(seed: int) -> Atoms:
    """Far from its own cell: positions in the first cell and true forces differ much."""
    random = np.random.default_rng(seed)
    atoms = bulk("Cu", cubic=True)
    atoms.numbers[:] = random.choice([29, 79, 13, 46], size=4)
    atoms.set_cell(atoms.cell.array * 1.1 + random.normal(size=(3, 3)) * 0.7, scale_atoms=True)
    atoms.rattle(0.1, seed=seed)
    return atoms


@pytest.mark.parametrize("seed", [11, 31, 34])
def test_a_skewed_cell_is_converged_by_its_true_forces(seed):
    atoms = skewed_alloy(seed)
    result = relax(atoms, EMT(), RelaxSettings(fmax=0.02, cell=True))
    forces = np.linalg.norm(atoms.get_forces(), axis=1).max()
    assert result.converged
    assert result.max_force == forces < 0.02
    assert result.cell_gradient < 0.02
    # Judged by the structure alone, a converged structure is converged from the start.
    again = relax(atoms, EMT(), RelaxSettings(fmax=0.02, cell=True))
    assert again.converged
    assert again.steps == 0


def test_a_perfect_crystal_in_a_strained_cell_is_not_converged_with_it():
    atoms = bulk("Cu", a=3.8)
    assert relax(atoms.copy(), EMT(), RelaxSettings(fmax=0.01)).converged
    result = relax(atoms, EMT(), RelaxSettings(fmax=0.01, cell=True, steps=0))
    assert not result.converged
    assert result.max_force < 1e-10
    stress = atoms.get_stress(voigt=False) * atoms.get_volume()
    assert result.cell_gradient == pytest.approx(np.linalg.norm(stress, axis=1).max())
    assert relax(atoms, EMT(), RelaxSettings(fmax=0.01, cell=True)).cell_gradient < 0.01


def test_forces_on_fixed_atoms_do_not_count():
    atoms = bulk("Cu", cubic=True)
    atoms.rattle(0.2, seed=0)
    atoms.set_constraint(FixAtoms([0, 1]))
    result = relax(atoms, EMT(), RelaxSettings(fmax=0.01))
    assert result.converged
    assert result.max_force < 0.01
    assert np.linalg.norm(atoms.get_forces(apply_constraint=False)[:2], axis=1).min() > 0.1


def test_residual_stress_and_pressure():
    atoms = bulk("Cu", a=3.5)
    held = relax(atoms, EMT(), RelaxSettings())
    np.testing.assert_array_equal(held.stress, atoms.get_stress())
    np.testing.assert_allclose(held.stress_gpa, atoms.get_stress() / GPa)
    np.testing.assert_array_equal(held.residual_stress_gpa, held.stress_gpa)
    assert held.pressure == pytest.approx(-atoms.get_stress()[:3].mean() / GPa)
    assert held.pressure > 5  # compressed
    assert held.cell_gradient is None
    relaxed = relax(atoms, EMT(), RelaxSettings(fmax=1e-4, cell=True, pressure=3.0))
    assert relaxed.pressure == pytest.approx(3.0, abs=0.01)
    assert np.abs(relaxed.residual_stress_gpa).max() < 0.01
    assert relaxed.stress_gpa[0] == pytest.approx(-3.0, abs=0.01)


@pytest.mark.parametrize("atoms", [molecule("CO2"), molecule("CO2", cell=[9, 9, 0]), molecule("CO2", cell=[9, 9, 9])])
def test_no_stress_where_there_is_none(atoms):
    class WithoutStress(EMT):
        implemented_properties = ("energy", "forces")

    result = relax(atoms, WithoutStress(), RelaxSettings(steps=1))
    assert result.stress is result.stress_gpa is result.residual_stress_gpa is result.pressure is None


def runaway() -> tuple[Atoms, LennardJones]:
    """Argon under tension: its cell grows without end, and its deformation is hard to take a logarithm of."""
    atoms = bulk("Ar", cubic=True, crystalstructure="fcc", a=5.2)
    atoms.set_cell(atoms.cell * [1, 1, 1.6], scale_atoms=True)
    return atoms, LennardJones(sigma=3.4, epsilon=0.01, rc=8, smooth=True)


def test_scipy_is_quiet_about_logarithms_and_everything_else_is_heard(capfd):
    atoms, calculator = runaway()
    first = atoms.cell.array.copy()
    settings = RelaxSettings("fire", cell=True, pressure=-0.5, steps=110)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = relax(atoms, calculator, settings, on_step=lambda step, _: warnings.warn(f"step {step}", stacklevel=1))
        print("heard")
    assert not result.converged
    assert [str(warning.message) for warning in caught] == [f"step {step}" for step in range(result.steps + 1)]
    assert capfd.readouterr() == ("heard\n", "")
    # The flood is real: this is what ASE's filter does with such a cell.
    atoms.calc = calculator
    plain = FrechetCellFilter(atoms)
    plain.orig_cell = first
    with pytest.warns(RuntimeWarning, match="logm result may be inaccurate"):
        plain.get_positions()


def test_too_few_steps_do_not_converge():
    atoms = bulk("Cu", cubic=True)
    atoms.rattle(0.2, seed=0)
    result = relax(atoms, EMT(), RelaxSettings("fire", steps=2))
    assert not result.converged
    assert result.steps == 2
    assert result.max_force > 0.01


def test_mistakes_are_explained():
    with pytest.raises(ConfigError, match=r"no optimizer 'fir' \(did you mean 'fire'\?\)"):
        RelaxSettings("fir")
    with pytest.raises(ConfigError, match="acts on the cell"):
        RelaxSettings(pressure=1.0)
    with pytest.raises(ConfigError, match="fmax=0"):
        RelaxSettings(fmax=0)
    with pytest.raises(ConfigError, match="its cell cannot be relaxed"):
        relax(molecule("CO2"), EMT(), RelaxSettings(cell=True))


class Wavy(Calculator):
    """An energy of the volume alone that curves downwards in places, as of a model that was hardly trained."""

    implemented_properties = ["energy", "forces", "stress"]  # noqa: RUF012 - as ASE has it

    def calculate(self, atoms=None, properties=("energy",), system_changes=()):
        super().calculate(atoms, properties, system_changes)
        volume, count = self.atoms.get_volume(), len(self.atoms)
        x = (4 * volume / count) ** (1 / 3) - 3.5
        slope = 24 * x + 1.2 * np.cos(40 * x)
        energy = 12 * x**2 + 0.03 * np.sin(40 * x)
        of_volume = slope * (x + 3.5) / (3 * volume)
        pressure = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
        self.results = {
            "energy": count * energy,
            "forces": np.zeros((count, 3)),
            "stress": count * of_volume * pressure,
        }


def test_the_automatic_optimizer_passes_downward_curvature():
    atoms = bulk("Cu", cubic=True, a=3.61) * (3, 3, 3)
    settings = RelaxSettings(cell=True, fmax=0.01, steps=200)
    found = relax(atoms, Wavy(), settings)
    assert found.converged
    stalled = relax(bulk("Cu", cubic=True, a=3.61) * (3, 3, 3), Wavy(), replace(settings, optimizer="lbfgs"))
    assert not stalled.converged
    sizes = [_optimizer(RelaxSettings(cell=cell), atoms) for cell in (True, False) for atoms in (200, 201)]
    assert sizes == ["bfgs", "fire", "bfgs", "lbfgs"]
