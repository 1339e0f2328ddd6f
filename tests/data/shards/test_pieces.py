import lzma

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.db import connect
from ase.io import Trajectory, write

from cliffordstf.data.load import load_frames
from cliffordstf.data.options import READ_AUTO, ReadOptions
from cliffordstf.data.readers.extxyz import parts
from cliffordstf.data.shards.layout import write_index
from cliffordstf.data.shards.pieces import read_pieces, split
from cliffordstf.data.shards.writing import write_shard
from cliffordstf.errors import ConfigError, DataError


def structures(count: int) -> list[Atoms]:
    kinds = [molecule("H2O"), bulk("Si"), molecule("CH3CH2OH"), Atoms("O")]
    found = []
    for index in range(count):
        atoms = kinds[index % len(kinds)].copy()
        atoms.rattle(0.05, seed=index)
        atoms.info["note"] = f"structure {index}"
        found.append(atoms)
    return found


def assert_same(one, other):
    assert [frame.structure.name for frame in one] == [frame.structure.name for frame in other]
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.structure.positions, b.structure.positions)
        np.testing.assert_array_equal(a.structure.cell, b.structure.cell)
        np.testing.assert_array_equal(a.structure.numbers, b.structure.numbers)
        assert a.energy == b.energy
        for left, right in ((a.forces, b.forces), (a.stress, b.stress), (a.fixed, b.fixed), (a.tags, b.tags)):
            assert (left is None) == (right is None)
            if left is not None and right is not None:
                np.testing.assert_array_equal(left, right)
        assert (a.id, a.weights) == (b.id, b.weights)


def in_pieces(path, size, options=READ_AUTO):
    return [frame for shard in split([path], size, options) for frame in read_pieces(shard, options).frames]


@pytest.fixture(params=["extxyz", "extxyz.xz", "traj", "db"])
def file(request, tmp_path):
    path = tmp_path / f"in.{request.param}"
    if request.param == "db":
        with connect(path) as database:
            for atoms in structures(23):
                database.write(atoms)
    elif request.param == "traj":
        with Trajectory(path, "w") as trajectory:
            for atoms in structures(23):
                trajectory.write(atoms)
    else:
        write(tmp_path / "in.extxyz", structures(23))
        if request.param.endswith("xz"):
            path.write_bytes(lzma.compress((tmp_path / "in.extxyz").read_bytes()))
    return path


@pytest.mark.parametrize("size", [1, 5, 23, 100])
def test_pieces_together_are_the_file(file, size):
    assert_same(in_pieces(file, size), load_frames(file).frames)


def test_a_limit_is_kept(file):
    for limit in (1, 7, 10, 22):
        options = ReadOptions(limit=limit)
        assert_same(in_pieces(file, 5, options), load_frames(file, options).frames)


def test_pieces_can_be_read_in_any_order(file):
    shards = list(split([file], 4, READ_AUTO))
    whole = load_frames(file).frames
    for place in (3, 0, 5, 1):
        assert_same(read_pieces(shards[place], READ_AUTO).frames, whole[4 * place : 4 * place + 4])


@pytest.mark.parametrize(
    "name",
    [
        "mptrj/mptrj-random-1k.xyz",
        "oc20/derived_s2ef.aselmdb",
        "oc20/tutorial_lmdb/s2ef/val_20/data.lmdb",
        "oc20/dft_traj/random1000156.traj",
        "oc20/derived_s2ef_raw/val",
        "formats/mlip_samples/spice2-1000_429_md_0-1.hdf5",
        "mlearn/Si_test.json",
    ],
)
def test_real_files_in_pieces_and_as_shards(name, real_data, tmp_path):
    path = real_data / name
    whole = load_frames(path).frames
    assert_same(in_pieces(path, 17), whole)
    folder = tmp_path / "set.shards"
    shards = enumerate(split([path], 17, READ_AUTO))
    write_index(folder, [write_shard(folder / f"{i}", read_pieces(shard, READ_AUTO).frames) for i, shard in shards])
    assert_same(in_pieces(folder, 5), load_frames(folder).frames)
    found = load_frames(folder)
    assert found.sources[0].format == "cliffordstf shards"
    for before, after in zip(whole, found.frames, strict=True):
        np.testing.assert_array_equal(before.structure.positions, after.structure.positions)
        assert (before.energy, before.id, before.config_type) == (after.energy, after.id, after.config_type)
        if before.forces is not None:
            np.testing.assert_array_equal(before.forces, after.forces)
        if before.stress is not None:
            np.testing.assert_allclose(before.stress, after.stress, rtol=1e-15)


def test_small_files_share_a_shard(tmp_path):
    for index, atoms in enumerate(structures(7)):
        write(tmp_path / f"{index}.xyz", atoms)
    shards = list(split([tmp_path], 3, READ_AUTO))
    assert [[piece.path.name for piece in shard] for shard in shards] == [
        ["0.xyz", "1.xyz", "2.xyz"],
        ["3.xyz", "4.xyz", "5.xyz"],
        ["6.xyz"],
    ]
    assert [frame.config_type for frame in read_pieces(shards[0], READ_AUTO).frames] == ["0", "1", "2"]


def test_damaged_and_missing_files_are_one_sentence(tmp_path):
    path = tmp_path / "in.extxyz"
    write(path, structures(5))
    text = path.read_text()
    path.write_text(text[: text.rindex("O ")])
    with pytest.raises(DataError, match="at frame 4 \\(it ends after 0 of 3 atoms\\)"):
        list(parts(path, 2))
    path.write_text("one\n" + text)
    with pytest.raises(DataError):
        list(split([path], 2, READ_AUTO))
    with pytest.raises(DataError, match="does not exist"):
        list(split([tmp_path / "no.xyz"], 2, READ_AUTO))
    with pytest.raises(ConfigError, match="relaxations"):
        list(split([path], 2, ReadOptions(relaxations=True)))


@pytest.mark.parametrize("column", ["atom_positions", "structure_atoms"])
def test_a_shortened_array_is_found(column, tmp_path):
    path = tmp_path / "in.extxyz"
    write(path, structures(8))
    folder = tmp_path / "set.shards"
    write_index(folder, [write_shard(folder / "0", load_frames(path).frames)])
    file = folder / "0" / f"{column}.npy"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(DataError, match="convert the data again"):
        load_frames(folder)
