import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.emt import EMT
from ase.calculators.lj import LennardJones
from ase.io import read

import cliffordstf
from cliffordstf.errors import ConfigError
from cliffordstf.integrations.ase import Calculator
from cliffordstf.simulate.guards import Guards, SimulationError
from cliffordstf.simulate.md import run_md
from cliffordstf.simulate.settings import MDSettings


def test_an_explosion_stops_the_run_and_everything_written_is_kept(tmp_path):
    log, trajectory, restart = tmp_path / "log.csv", tmp_path / "out.extxyz", tmp_path / "restart.npz"
    atoms = bulk("Cu", cubic=True) * (2, 2, 2)
    settings = MDSettings(
        timestep=60.0,  # An order of magnitude too long.
        steps=1000,
        interval=1,
        log=log,
        trajectory=trajectory,
        restart=restart,
        restart_interval=1,
    )
    with pytest.raises(
        SimulationError, match=r"^stopped at step \d+ \([0-9.]+ ps\): .*(temperature|force|apart)"
    ) as info:
        run_md(atoms, EMT(), settings)
    step = int(str(info.value).split("step ")[1].split(" ")[0])
    assert 1 <= step < 1000
    lines = log.read_text().splitlines()
    assert lines[-1].startswith(f"{step - 1},")
    assert len(lines) == step + 1
    frames = read(trajectory, ":")
    assert len(frames) == step
    assert all(np.isfinite(frame.get_forces()).all() for frame in frames)
    assert restart.is_file()


def check(atoms: Atoms, guards: Guards | None = None, temperature: float = 300.0) -> None:
    (guards or Guards()).check(atoms, temperature)


def pair(distance: float, symbols: str = "Ar2") -> Atoms:
    return Atoms(symbols, positions=[[0, 0, 0], [0, 0, distance]], calculator=LennardJones(sigma=0.1, epsilon=1e-6))


def test_atoms_that_are_too_close():
    check(pair(1.0))
    with pytest.raises(SimulationError, match=r"atoms 0 \(Ar\) and 1 \(Ar\) are 0.500 Å apart.* 0.848 Å"):
        check(pair(0.5))
    check(pair(0.35, "H2"))
    with pytest.raises(SimulationError, match=r"closer than the limit of 0.300 Å"):
        check(pair(0.29, "H2"))
    check(pair(0.5), Guards(min_covalent=0.1))


def test_distances_count_images():
    atoms = Atoms("H2", positions=[[0, 0, 0.1], [0, 0, 5.95]], cell=[6, 6, 6], pbc=True)
    atoms.calc = LennardJones(sigma=0.1, epsilon=1e-6, rc=1.0)
    with pytest.raises(SimulationError, match=r"0.150 Å apart"):
        check(atoms)
    atoms.pbc = False
    check(atoms)


def test_forces_above_the_limit():
    atoms = Atoms("Ar2", positions=[[0, 0, 0], [0, 0, 2.0]], calculator=LennardJones(sigma=3.0, epsilon=0.01))
    size = np.linalg.norm(atoms.get_forces()[0])
    check(atoms, Guards(max_force=size * 1.01))
    with pytest.raises(SimulationError, match=r"force on atom 0 \(Ar\) is .* above the limit"):
        check(atoms, Guards(max_force=size * 0.99))


def test_a_temperature_far_above_the_target():
    atoms = pair(3.0)
    atoms.set_momenta([[0, 0, 10.0], [0, 0, -10.0]])
    temperature = atoms.get_temperature()
    check(atoms, temperature=(temperature - 999) / 10)
    with pytest.raises(SimulationError, match=r"temperature is .* K, above the limit"):
        check(atoms, temperature=(temperature - 1001) / 10)
    with pytest.raises(SimulationError, match="above the limit of 5 K"):
        check(atoms, Guards(max_temperature=5.0))


def test_numbers_that_are_not_finite():
    atoms = pair(3.0)
    atoms.set_momenta([[0, 0, np.nan], [0, 0, 0]])
    with pytest.raises(SimulationError, match="velocities are not finite"):
        check(atoms)


def test_an_ensemble_that_disagrees():
    members = [cliffordstf.build("default/small", elements=["H", "O"], seed=seed, channels=8) for seed in range(2)]
    atoms = molecule("H2O")
    calculator = Calculator(members)
    calculator.get_forces(atoms)
    spread = calculator.uncertainty["max_force_std"]
    run_md(atoms.copy(), calculator, MDSettings(steps=1, guards=Guards(max_force_std=spread * 10)))
    with pytest.raises(SimulationError, match=r"stopped at step 0 \(0 ps\): the standard deviation of the ensemble"):
        run_md(atoms.copy(), calculator, MDSettings(steps=1, guards=Guards(max_force_std=spread * 0.99)))
    with pytest.raises(ConfigError, match="needs a calculator with two or more models"):
        run_md(atoms.copy(), Calculator(members[0]), MDSettings(steps=1, guards=Guards(max_force_std=1.0)))


def test_hot_velocities_that_came_with_the_atoms_are_no_explosion():
    atoms = pair(3.0)
    atoms.set_momenta([[0, 0, 20.0], [0, 0, -20.0]])
    assert atoms.get_temperature() > 10 * 300 + 1000
    assert run_md(atoms, atoms.calc, MDSettings(steps=2)).steps == 2


def test_limits_are_checked():
    with pytest.raises(ConfigError, match=r"max_force=0"):
        Guards(max_force=0)
