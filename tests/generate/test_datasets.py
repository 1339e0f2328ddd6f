import numpy as np
import pytest
from ase.calculators.fd import calculate_numerical_forces
from ase.io import read

from cliffordstf import datasets
from cliffordstf.errors import DataError
from cliffordstf.generate.xtb import make_xtb


def test_the_demo_set_is_small_and_complete():
    path = datasets.path("ethanol_gfn2")
    assert path.stat().st_size < 150_000
    frames = read(path, ":")
    assert len(frames) == 600
    for frame in frames:
        assert frame.get_chemical_formula() == "C2H6O"
        assert frame.info["method"] == "GFN2-xTB"
        assert np.abs(frame.get_forces().sum(axis=0)).max() < 1e-4
    energies = np.array([frame.get_potential_energy() for frame in frames])
    # Equipartition: 21 harmonic modes at 500 K spread the energy by kT sqrt(21 / 2).
    assert energies.std() == pytest.approx(8.617e-5 * 500 * np.sqrt(10.5), rel=0.15)


def test_its_forces_are_the_gradient_of_its_energies():
    pytest.importorskip("tblite")
    frame = read(datasets.path("ethanol_gfn2"), 123)
    check = frame.copy()
    check.calc = make_xtb(accuracy=0.001, reuse=False)
    assert check.get_potential_energy() == pytest.approx(frame.get_potential_energy(), abs=1e-6)
    coarse, fine = (calculate_numerical_forces(check, eps=eps) for eps in (2e-3, 1e-3))
    np.testing.assert_allclose((4 * fine - coarse) / 3, frame.get_forces(), atol=1e-5)


def test_a_wrong_name_is_an_error():
    with pytest.raises(DataError, match=r"no data set 'ethanol-gfn2' \(did you mean 'ethanol_gfn2'\?\)"):
        datasets.path("ethanol-gfn2")
