import numpy as np
import pytest

from cliffordstf.data.linear_references import linear_references
from cliffordstf.errors import DataError


@pytest.fixture
def file(tmp_path):
    values = np.zeros(100)
    values[[0, 1, 2, 8, 29]] = [4e5, -3.4, 5e11, -4.8, -4.9]
    np.savez(tmp_path / "lin.npz", coeff=values)
    return tmp_path / "lin.npz"


def test_by_atomic_number(file):
    assert linear_references(file, [1, 8, 29]) == {1: -3.4, 8: -4.8, 29: -4.9}


def test_trap_6_elements_absent_from_the_fit_are_an_error(file):
    with pytest.raises(DataError, match=r"lin\.npz has no reference energy for He, Gd, Og, absent from its fit"):
        linear_references(file, [1, 2, 64, 118])


def test_other_files(tmp_path):
    np.savez(tmp_path / "one.npz", anything=np.array([0.0, -1.0]))
    assert linear_references(tmp_path / "one.npz", [1]) == {1: -1.0}
    np.savez(tmp_path / "two.npz", a=np.zeros(2), b=np.zeros(2))
    with pytest.raises(DataError, match="holds no array 'coeff'"):
        linear_references(tmp_path / "two.npz", [1])
    np.savez(tmp_path / "flat.npz", coeff=np.zeros((2, 2)))
    with pytest.raises(DataError, match="one energy per atomic number"):
        linear_references(tmp_path / "flat.npz", [1])
    with pytest.raises(DataError, match="there is no file"):
        linear_references(tmp_path / "none.npz", [1])


def test_trap_6_real_files(real_data):
    oc20 = linear_references(real_data / "oc20/oc20_linref.npz", [1, 6, 8, 29])
    assert oc20[8] == pytest.approx(-4.8231, abs=1e-4)
    with pytest.raises(DataError, match="for Li"):
        linear_references(real_data / "oc20/oc20_linref.npz", [3, 8])
    assert linear_references(real_data / "oc22/oc22_linfit_coeffs.npz", [3])[3] == pytest.approx(-3.8032, abs=1e-4)
    with pytest.raises(DataError, match="for F"):
        linear_references(real_data / "oc22/oc22_linfit_coeffs.npz", [9])
