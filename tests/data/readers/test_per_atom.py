"""Which atoms are fixed, and tags, from every format of ASE; forces stay as they were calculated."""

import json
import zlib

import ase.io
import lmdb
import numpy as np
import pytest
from ase.build import bulk
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms, FixBondLength, FixCartesian
from ase.db import connect

from cliffordstf.data.readers import read_frames
from cliffordstf.data.readers.per_atom import atom_tags, described, fixed_atoms


def copper(*constraints):
    atoms = bulk("Cu", cubic=True)
    atoms.set_constraint(list(constraints))
    atoms.calc = SinglePointCalculator(atoms, energy=-1.0, forces=np.arange(12.0).reshape(4, 3) + 1)
    return atoms


def test_an_atom_is_fixed_only_in_all_directions():
    found = fixed_atoms(
        described([FixCartesian([0, 1], (True, True, False)), FixCartesian(1, (False, False, True))]), 4
    )
    assert found.tolist() == [False, True, False, False]
    assert fixed_atoms(described([FixAtoms([2]), FixBondLength(0, 1)]), 4).tolist() == [False, False, True, False]
    assert fixed_atoms(described([FixBondLength(0, 1)]), 4) is None
    assert fixed_atoms([], 4) is None


@pytest.mark.parametrize("name", ["a.traj", "a.db", "a.extxyz"])
def test_trap_5_forces_on_fixed_atoms_are_kept(tmp_path, name):
    atoms = copper(FixAtoms([1, 3]))
    atoms.set_tags([0, 2, 1, 0])
    if name.endswith(".db"):
        with connect(tmp_path / name) as database:
            database.write(atoms)
    else:
        ase.io.write(tmp_path / name, atoms)
    frame = read_frames(tmp_path / name)[0][0]
    assert frame.fixed.tolist() == [False, True, False, True]
    assert frame.tags.tolist() == [0, 2, 1, 0]
    np.testing.assert_allclose(frame.forces, np.arange(12.0).reshape(4, 3) + 1)


def test_ase_lmdb(tmp_path):
    atoms = copper()
    row = {
        "numbers": atoms.numbers.tolist(),
        "positions": atoms.positions.tolist(),
        "cell": atoms.cell.array.tolist(),
        "pbc": [True] * 3,
        "constraints": described([FixAtoms([2])]),
        "tags": [0, 1, 2, 2],
        "energy": -1.0,
    }
    environment = lmdb.open(str(tmp_path / "a.aselmdb"), subdir=False, map_size=2**20, lock=False)
    with environment.begin(write=True) as transaction:
        transaction.put(b"1", zlib.compress(json.dumps(row).encode()))
    environment.close()
    frame = read_frames(tmp_path / "a.aselmdb")[0][0]
    assert frame.fixed.tolist() == [False, False, True, False]
    assert frame.tags.tolist() == [0, 1, 2, 2]


def test_tags_are_whole_numbers_or_none_of_ours():
    assert atom_tags([0.0, 2.0]).tolist() == [0, 2]
    for other in (None, ["surface", "bulk"], [0.5, 1.0], []):
        assert atom_tags(other) is None


def test_real_relaxation(real_data):
    path = real_data / "oc20/dft_traj/random1000156.traj"
    frames, _ = read_frames(path, limit=2)
    constraint = ase.io.read(path, 0).constraints[0]
    assert np.flatnonzero(frames[0].fixed).tolist() == sorted(constraint.index.tolist())
    assert np.abs(frames[0].forces[frames[0].fixed]).max() > 0
