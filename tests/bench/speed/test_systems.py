import numpy as np
import pytest

from cliffordstf.bench.speed.systems import aspirin, copper_box, ethanol, water_box


def test_molecules_and_the_crystal_have_the_atoms_of_their_names():
    assert len(aspirin(0)) == 21
    assert sorted(ethanol(0).numbers.tolist()) == [1] * 6 + [6, 6, 8]
    assert not np.array_equal(ethanol(0).positions, ethanol(1).positions)
    box = copper_box(1000)
    assert 800 < len(box) < 1200
    assert box.pbc.all()
    assert len(copper_box(864)) == 864


def test_water_has_the_density_of_the_liquid_and_whole_molecules():
    box = water_box(192)
    assert sorted(set(box.numbers.tolist())) == [1, 8]
    assert (box.numbers == 8).sum() == 192
    assert box.pbc.all()
    grams = 192 * 18.015 / 6.02214e23
    assert grams / (abs(np.linalg.det(box.cell)) * 1e-24) == pytest.approx(0.997, abs=0.002)
    assert np.linalg.norm(box.cell, axis=1).min() > 12  # two cutoffs and more
    oxygens, hydrogens = box.positions[box.numbers == 8], box.positions[box.numbers == 1].reshape(192, 2, 3)
    bonds = np.linalg.norm(hydrogens - oxygens[:, None], axis=2)
    assert 0.6 < bonds.min() < bonds.max() < 1.4
    vectors = box.positions[:, None] - box.positions[None]
    vectors -= np.round(vectors / np.diag(box.cell)) * np.diag(box.cell)
    distances = np.linalg.norm(vectors, axis=2) + 10 * np.eye(len(box))
    assert distances.min() > 0.6  # no atom on another one
    directions = (hydrogens.mean(axis=1) - oxygens).mean(axis=0)
    assert np.abs(directions).max() < 0.15  # turned at random


def test_water_that_fits_no_grid_is_refused():
    with pytest.raises(ValueError, match="100 water molecules make no grid"):
        water_box(100)
