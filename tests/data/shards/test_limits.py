"""Parts of files are read within the limits of whole ones, and none of their structures is lost in silence."""

import json
import lzma

import h5py
import numpy as np
import pytest
from ase import Atoms
from ase.db import connect
from ase.io import Trajectory, write

from cliffordstf.data.load import load_frames
from cliffordstf.data.options import READ_AUTO, ReadOptions
from cliffordstf.data.readers import lmdb_file
from cliffordstf.data.shards.layout import INDEX, write_index
from cliffordstf.data.shards.pieces import read_pieces, split
from cliffordstf.data.shards.stored import open_stored
from cliffordstf.data.shards.writing import write_shard
from cliffordstf.errors import DataError, FileWriteError, LimitError
from cliffordstf.host.files import write_folder
from tests.data.readers.graph_objects import graph_pickle, slab, write_lmdb

COUNT = 12


def images(count: int = COUNT) -> list[Atoms]:
    random = np.random.default_rng(0)
    return [Atoms("OH2", random.normal(size=(3, 3)) + 3 * np.eye(3)) for _ in range(count)]


def write_as(folder, suffix, count=COUNT):
    path = folder / f"in.{suffix}"
    if suffix == "db":
        path.unlink(missing_ok=True)
        with connect(path) as database:
            for atoms in images(count):
                database.write(atoms)
    elif suffix == "traj":
        with Trajectory(path, "w") as trajectory:
            for atoms in images(count):
                trajectory.write(atoms)
    elif suffix == "lmdb":
        path.unlink(missing_ok=True)
        write_lmdb(path, [graph_pickle({**slab(number), "y": -1.0}, version=2) for number in range(count)], count)
    elif suffix == "h5":
        with h5py.File(path, "w") as file:
            file["numbers"], file["positions"] = [8, 1, 1], np.array([atoms.positions for atoms in images(count)])
    else:
        write(folder / "in.extxyz", images(count))
        if suffix == "extxyz.xz":
            path.write_bytes(lzma.compress((folder / "in.extxyz").read_bytes()))
        if suffix == "shards":
            frames = load_frames(folder / "in.extxyz").frames
            write_index(path, [write_shard(path / f"{i}", frames[i : i + 5]) for i in range(0, count, 5)])
    return path


SUFFIXES = ["extxyz", "extxyz.xz", "traj", "db", "lmdb", "h5", "shards"]


def read_all(path, **limits):
    options = ReadOptions(limits=limits)
    return [frame for shard in split([path], 4, options) for frame in read_pieces(shard, options).frames]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_limits_hold_for_parts(tmp_path, suffix):
    path = write_as(tmp_path, suffix)
    assert len(read_all(path)) == COUNT
    with pytest.raises(LimitError, match=r"data\.limits.atoms"):
        read_all(path, atoms=11)
    assert len(read_all(path, atoms=100)) == COUNT


@pytest.mark.parametrize("suffix", ["extxyz", "extxyz.xz", "h5", "shards"])
def test_bytes_of_a_part_are_limited(tmp_path, suffix):
    with pytest.raises(LimitError, match=r"data\.limits.gigabytes"):
        read_all(write_as(tmp_path, suffix), gigabytes=1e-7)


def test_a_line_without_end(tmp_path):
    path = tmp_path / "in.extxyz.xz"
    path.write_bytes(lzma.compress(b"3\n" + bytes(1_000_000)))
    with pytest.raises(LimitError, match="a line"):
        read_all(path, gigabytes=1e-4)


def test_a_number_of_atoms_that_no_file_has(tmp_path):
    path = tmp_path / "in.extxyz"
    for count in ("1000000000000000", "-1"):
        path.write_text(f"1\ncomment\nH 0 0 0\n{count}\ncomment\nH 0 0 0\n")
        with pytest.raises(LimitError, match="number of atoms"):
            read_all(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_structures_that_have_gone_are_missed(tmp_path, suffix):
    shards = list(split([write_as(tmp_path, suffix)], 4, READ_AUTO))
    write_as(tmp_path, suffix, COUNT - 2)
    with pytest.raises(DataError):
        read_pieces(shards[-1], READ_AUTO)


def test_a_label_of_as_many_values_as_a_part_has_structures(tmp_path):
    path = write_as(tmp_path, "h5")
    with h5py.File(path, "a") as file:
        file["energy"] = np.zeros(4)
    with pytest.raises(DataError, match="12 sets of positions but 4 of 'energy'"):
        read_all(path)


def test_labels_in_attributes_are_divided(tmp_path):
    path = write_as(tmp_path, "h5")
    with h5py.File(path, "a") as file:
        file.attrs["energy"] = np.arange(float(COUNT))
    assert [frame.energy for frame in read_all(path)] == list(range(COUNT))


def test_pages_of_an_lmdb_are_walked_once(tmp_path):
    path = write_as(tmp_path, "lmdb")
    before = lmdb_file._index.cache_info().misses
    frames = open_stored([path], READ_AUTO)
    assert len([frame.energy for frame in frames]) == COUNT
    assert lmdb_file._index.cache_info().misses - before <= 2  # with the usual limits, and with those of the options


@pytest.mark.parametrize("changes", [{"name": "../0"}, {"structures": -1}, {"atoms": 10**15}, {"structures": 10**15}])
def test_an_index_that_states_what_is_not_there(tmp_path, changes):
    path = write_as(tmp_path, "shards")
    values = json.loads((path / INDEX).read_text())
    values["shards"][0].update(changes)
    (path / INDEX).write_text(json.dumps(values))
    with pytest.raises(DataError, match="convert the data again"):
        load_frames(path)


def test_an_array_that_announces_more_than_it_holds(tmp_path):
    path = write_as(tmp_path, "shards")
    file = path / "0" / "atom_positions.npy"
    file.write_bytes(file.read_bytes().replace(b"(15, 3)", b"(15, 9)"))
    with pytest.raises(DataError, match="convert the data again"):
        load_frames(path)


def test_a_folder_that_cannot_be_written_stays_as_it_was(tmp_path):
    folder = tmp_path / "folder"
    write_folder(folder, lambda target: np.save(target / "a.npy", np.ones(2)))

    def fail(target):
        np.save(target / "a.npy", np.zeros(2))
        raise OSError(28, "No space left on device")

    with pytest.raises(FileWriteError, match="No space left"):
        write_folder(folder, fail)
    assert np.load(folder / "a.npy").tolist() == [1, 1]
    write_folder(folder, lambda target: np.save(target / "b.npy", np.zeros(2)))
    assert [item.name for item in folder.iterdir()] == ["b.npy"]
    assert list(tmp_path.iterdir()) == [folder]


def test_groups_without_structures_are_reported_whatever_part_they_are_in(tmp_path):
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as file:
        for index, atoms in enumerate(images()):
            group = file.create_group(f"molecule {index}")
            group["numbers"], group["positions"] = [8, 1, 1], atoms.positions
        file["molecule 99/positions"] = np.zeros((3, 3))
    shards = [read_pieces(shard, READ_AUTO) for shard in split([path], 4, READ_AUTO)]
    assert [len(loaded.frames) for loaded in shards] == [4, 4, 4]
    assert all("molecule 99" in "".join(loaded.warnings) for loaded in shards)
