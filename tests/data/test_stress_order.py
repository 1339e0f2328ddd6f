"""The order of shear components: given, fixed by the format, found from forces, or left out."""

import json
from collections import Counter

import ase.io
import numpy as np
import pytest
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.stress import full_3x3_to_voigt_6_stress

from cliffordstf.data.options import ReadOptions
from cliffordstf.data.readers import read_files
from cliffordstf.data.stress_order import Sample, find_orders, parse_stress_order, places
from cliffordstf.data.structure import Structure
from cliffordstf.errors import ConfigError


def copper(count: int, seed: int = 0) -> list:
    images = []
    for index in range(count):
        atoms = bulk("Cu", cubic=True) * (2, 2, 2)
        random = np.random.default_rng([seed, index])
        atoms.set_cell(atoms.cell @ (np.eye(3) + 0.02 * random.normal(size=(3, 3))), scale_atoms=True)
        atoms.rattle(0.08, rng=random)
        atoms.calc = EMT()
        images.append(atoms)
    return images


def samples(images: list, order: str) -> list[Sample]:
    found = []
    for atoms in images:
        voigt = atoms.get_stress()[3:]
        shear = np.empty(3)
        for place, value in zip(places(order), voigt, strict=True):
            shear[place] = value
        found.append(Sample(Structure.from_ase(atoms), atoms.get_forces(), shear))
    return found


@pytest.mark.parametrize("order", ["yz xz xy", "xy yz xz", "xy xz yz", "xz yz xy"])
def test_the_order_is_found_from_the_forces(order):
    assert find_orders({"a": samples(copper(8), order)}) == {"a": order}


def test_groups_have_orders_of_their_own_and_too_few_structures_none():
    images = copper(26)
    groups = {
        "a": samples(images[:12], "yz xz xy"),
        "b": samples(images[12:24], "xy xz yz"),
        "c": samples(images[24:], "xy yz xz"),
    }
    assert find_orders(groups) == {"a": "yz xz xy", "b": "xy xz yz", "c": None}


def test_noise_establishes_nothing():
    random = np.random.default_rng(0)
    noise = [Sample(s.structure, s.forces, random.normal(size=3)) for s in samples(copper(12), "yz xz xy")]
    assert find_orders({"a": noise}) == {"a": None}


def test_spellings():
    assert parse_stress_order("xx, yy, zz, yx, zy, zx") == "xy yz xz"
    assert ReadOptions(stress_order="XY YZ ZX").stress_order == "xy yz xz"
    for wrong in ("xy yz", "xy yz yz", "xx yy zz", "1 2 3"):
        with pytest.raises(ConfigError, match="is not an order of shear components; write 'xy yz zx'"):
            ReadOptions(stress_order=wrong)


def test_six_numbers_of_a_format_that_fixes_the_order_and_of_a_user_who_knows_better(tmp_path):
    atoms = bulk("Cu", cubic=True)
    atoms.info["REF_stress"] = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    ase.io.write(tmp_path / "a.extxyz", [atoms])
    voigt = read_files(tmp_path / "a.extxyz")[0][0].stress
    np.testing.assert_allclose(full_3x3_to_voigt_6_stress(voigt), [1, 2, 3, 4, 5, 6])
    vasp = read_files(tmp_path / "a.extxyz", ReadOptions(stress_order="xy yz zx"))[0][0].stress
    np.testing.assert_allclose(full_3x3_to_voigt_6_stress(vasp), [1, 2, 3, 5, 6, 4])


def test_silicon_has_two_orders_in_one_file(real_data):
    """Checked against a pair potential's virial by tests/data/test_readers_arrays.py, component by component."""
    frames, sources = read_files(real_data / "mlearn" / "Si_training.json")
    report = " ".join(sources[0].warnings)
    assert "xy xz yz in Vacancy (57), AIMD-NVT (90); xy yz xz in Elastic" in report
    assert "could not be established for Surface (12): these components are left out" in report
    masked = Counter(f.config_type for f in frames if not np.isfinite(f.stress).all())
    assert masked == {"Surface": 12}
    assert all(np.isfinite(np.diag(f.stress)).all() and f.has_stress for f in frames)
    raw = json.loads((real_data / "mlearn" / "Si_training.json").read_text())
    elastic = next(
        i for i, entry in enumerate(raw) if entry["group"] == "Elastic" and entry["outputs"]["virial_stress"][3] > 1
    )
    given = read_files(real_data / "mlearn" / "Si_training.json", ReadOptions(stress_order="xy yz zx"))
    np.testing.assert_array_equal(given[0][elastic].stress, frames[elastic].stress)
    assert all(np.isfinite(f.stress).all() for f in given[0])
    assert not any("shear" in text for text in given[1][0].warnings)


def test_shear_that_is_zero_needs_no_order(real_data):
    frames, _ = read_files(real_data / "mlearn" / "Li_training.json")
    elastic = [frame for frame in frames if frame.config_type == "Elastic"]
    kept = [frame for frame in elastic if np.isfinite(frame.stress).all()]
    assert 0 < len(kept) < len(elastic)
    assert all((frame.stress[[0, 0, 1], [1, 2, 2]] == 0).all() for frame in kept)
