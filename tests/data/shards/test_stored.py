import re

import h5py
import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import Trajectory, write

from cliffordstf.data.dataset import Dataset
from cliffordstf.data.load import load_frames
from cliffordstf.data.options import READ_AUTO, ReadOptions
from cliffordstf.data.shards import stored
from cliffordstf.data.shards.layout import write_index
from cliffordstf.data.shards.stored import (
    StoredFrames,
    elements_of,
    has_label,
    label_counts,
    open_stored,
    picked,
    representative,
    sizes_of,
    stays_on_disk,
)
from cliffordstf.data.shards.writing import write_shard
from cliffordstf.errors import ConfigError, DataError


@pytest.fixture
def images() -> list[Atoms]:
    found = []
    for index in range(30):
        atoms = molecule(["H2O", "CH4", "CH3CH2OH"][index % 3])
        atoms.rattle(0.05, seed=index)
        forces = np.random.default_rng(index).standard_normal(atoms.positions.shape)
        results = {"energy": -float(index), "forces": forces} if index % 5 else {"energy": -float(index)}
        atoms.calc = SinglePointCalculator(atoms, **results)
        found.append(atoms)
    return found


@pytest.fixture(params=["shards", "traj", "two files", "hdf5"])
def files(request, images, tmp_path):
    write(tmp_path / "in.extxyz", images)
    if request.param == "shards":
        frames = load_frames(tmp_path / "in.extxyz").frames
        folder = tmp_path / "in.shards"
        parts = [write_shard(folder / f"{i}", frames[i : i + 8]) for i in range(0, 30, 8)]
        write_index(folder, parts)
        return [folder]
    if request.param == "hdf5":
        with h5py.File(tmp_path / "in.h5", "w") as file:
            for index, atoms in enumerate(images):
                group = file.create_group(f"structure_{index}")
                group["numbers"], group["positions"] = atoms.numbers, atoms.positions
                group["energy"] = atoms.calc.results["energy"]
        return [tmp_path / "in.h5"]
    names = [tmp_path / "a.traj", tmp_path / "b.traj"] if request.param == "two files" else [tmp_path / "in.traj"]
    for place, name in enumerate(names):
        with Trajectory(name, "w") as trajectory:
            for atoms in images[place * 10 :] if len(names) == 1 or place else images[:10]:
                trajectory.write(atoms)
    return names


def test_frames_on_disk_are_those_in_memory(files):
    whole, found = load_frames([str(file) for file in files]).frames, open_stored(files, READ_AUTO)
    assert len(found) == len(whole) == 30
    for index in (0, 29, 7, 8, 15, -1):
        one, other = whole[index], found[index]
        assert (one.structure.name, one.energy, one.config_type) == (
            other.structure.name,
            other.energy,
            other.config_type,
        )
        np.testing.assert_array_equal(one.structure.positions, other.structure.positions)
        assert (one.forces is None) == (other.forces is None)
    assert [frame.energy for frame in found[3:20:4]] == [frame.energy for frame in whole[3:20:4]]
    np.testing.assert_array_equal(sizes_of(found), sizes_of(whole))
    assert elements_of(found) == elements_of(whole)
    assert label_counts(found) == label_counts(whole)
    assert has_label(found, "forces") == has_label(whole, "forces")
    with pytest.raises(IndexError):
        found[30]


def test_parts_of_a_set_stay_on_disk(files):
    found = open_stored(files, ReadOptions(limit=20))
    assert len(found) == 20
    part = picked(found, np.array([3, 19, 0]))
    assert isinstance(part, StoredFrames)
    assert [frame.energy for frame in part] == [-3.0, -19.0, 0.0]
    assert part.atoms.tolist() == [found.atoms[3], found.atoms[19], found.atoms[0]]
    assert picked(load_frames(files[0]).frames, [1])[0].energy == -1.0


def test_batches_are_those_of_a_set_in_memory(files):
    whole, found = (
        Dataset(load_frames([str(f) for f in files]).frames, 3.0),
        Dataset(open_stored(files, READ_AUTO), 3.0),
    )
    one, other = whole.batch([5, 22, 1]), found.batch([5, 22, 1])
    assert one.energy.tolist() == other.energy.tolist()
    np.testing.assert_array_equal(one.batch.positions, other.batch.positions)
    np.testing.assert_array_equal(one.batch.senders, other.batch.senders)
    assert found.edges.sum() == pytest.approx(whole.edges.sum(), rel=0.1)


def test_a_sample_is_evenly_spread(files, monkeypatch):
    monkeypatch.setattr(stored, "SAMPLE", 4)
    assert [frame.energy for frame in representative(open_stored(files, READ_AUTO))] == [0.0, -10.0, -19.0, -29.0]


def test_states_of_a_system_are_known_by_their_ids(tmp_path, real_data):
    frames = load_frames(real_data / "oc20" / "derived_s2ef_raw" / "val").frames
    folder = tmp_path / "in.shards"
    write_index(folder, [write_shard(folder / "0", frames)])
    systems = open_stored([folder], READ_AUTO).systems()
    assert systems == [frame.id for frame in frames]
    assert len(set(systems)) < len(systems)


def test_what_cannot_be_read_by_number_is_named(tmp_path, images):
    write(tmp_path / "in.extxyz", images)
    with pytest.raises(DataError, match=re.escape("cliffordstf data convert in.extxyz")):
        open_stored([tmp_path / "in.extxyz"], READ_AUTO)
    with pytest.raises(ConfigError, match=re.escape("data.relaxations")):
        open_stored([tmp_path / "in.extxyz"], ReadOptions(relaxations=True))


def test_only_large_shards_stay_on_disk_by_themselves(tmp_path, images, monkeypatch):
    write(tmp_path / "in.extxyz", images)
    frames = load_frames(tmp_path / "in.extxyz").frames
    write_index(tmp_path / "in.shards", [write_shard(tmp_path / "in.shards" / "0", frames)])
    assert not stays_on_disk([tmp_path / "in.shards"], None)
    assert stays_on_disk([tmp_path / "in.extxyz"], False)
    monkeypatch.setattr(stored, "LARGE", 30)
    assert stays_on_disk([tmp_path / "in.shards"], None)
    assert not stays_on_disk([tmp_path / "in.shards"], True)
    assert not stays_on_disk([tmp_path / "in.shards", tmp_path / "in.extxyz"], None)
