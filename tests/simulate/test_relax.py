import numpy as np
import pytest
from ase.build import bulk, molecule
from ase.calculators.emt import EMT
from ase.io import read
from ase.units import GPa

from cliffordstf.errors import ConfigError
from cliffordstf.simulate.relax import RelaxSettings, relax


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
