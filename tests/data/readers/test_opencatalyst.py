"""OC20 and OC22; the numbers in names are the traps that these files are known for."""

import pickle

import numpy as np
import pytest
import torch
from ase.geometry import find_mic

from cliffordstf.data.readers import read_frames
from cliffordstf.data.readers.detect import find_reader
from cliffordstf.data.readers.opencatalyst import read_lmdb
from cliffordstf.data.units import LabelKeys
from cliffordstf.errors import DataError
from tests.data.readers.graph_objects import graph_pickle, slab, write_lmdb


def s2ef(number: int) -> dict:
    return slab(
        number,
        y=-float(number),
        force=torch.full((3, 3), float(number)),
        sid=torch.tensor([100 + number]),
        fid=torch.tensor([number]),
    )


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("length", [None, 12])
def test_s2ef_in_natural_order(tmp_path, version, length):
    path = tmp_path / "data.lmdb"
    write_lmdb(path, [graph_pickle(s2ef(number), version=version) for number in range(12)], length)
    frames, source = read_frames(path)
    assert (source.format, source.warnings) == ("Open Catalyst LMDB", ())
    assert [frame.energy for frame in frames] == [-float(number) for number in range(12)]
    last = frames[11]
    assert last.structure.name == "data.lmdb, frame 11 (sid 111, fid 11)"
    assert (last.id, last.fixed.tolist()) == (111, [True, False, False])
    assert last.structure.numbers.tolist() == [29, 29, 8]
    assert last.structure.pbc.all()
    np.testing.assert_array_equal(last.structure.cell, 10 * np.eye(3))
    np.testing.assert_array_equal(last.forces, np.full((3, 3), 11.0))
    assert last.tags.tolist() == [0, 1, 2]
    assert len(read_frames(path, limit=2)[0]) == 2


def test_an_incomplete_lmdb_is_noticed(tmp_path):
    write_lmdb(tmp_path / "data.lmdb", [graph_pickle(s2ef(0), version=2)], length=5)
    _, source = read_frames(tmp_path / "data.lmdb")
    assert "data.lmdb states 5 structures but holds 1" in source.warnings[0]


def test_is2re_energy_is_the_relaxed_one(tmp_path):
    fields = slab(0, y_init=4.0, y_relaxed=-1.0, pos_relaxed=torch.ones(3, 3), force=torch.ones(3, 3), sid=7)
    write_lmdb(tmp_path / "data.lmdb", [graph_pickle(fields, version=1)])
    frames, source = read_frames(tmp_path / "data.lmdb")
    assert (source.format, source.warnings) == ("Open Catalyst LMDB (IS2RE)", ())
    assert (frames[0].energy, frames[0].forces, frames[0].id) == (-1.0, None, 7)
    assert frames[0].structure.positions[0, 0] == 0
    initial, _ = read_frames(tmp_path / "data.lmdb", keys=LabelKeys(energy="y_init", forces="force"))
    assert (initial[0].energy, initial[0].forces[0, 0]) == (4.0, 1.0)
    assert read_lmdb(tmp_path / "data.lmdb", None).records[0].properties["pos_relaxed"].shape == (3, 3)


def test_a_folder_of_numbered_files(tmp_path):
    for number in (0, 1):
        write_lmdb(tmp_path / f"data.{number:04d}.lmdb", [graph_pickle(s2ef(number), version=2)], 1)
    assert [frame.energy for frame in read_frames(tmp_path)[0]] == [0, -1]


def test_pickled_list(tmp_path):
    path = tmp_path / "objects.pkl"
    path.write_bytes(graph_pickle(s2ef(0), s2ef(3), version=2, as_list=True))
    frames, source = read_frames(path)
    assert (source.format, [frame.energy for frame in frames]) == ("Open Catalyst pickle", [0, -3])


def test_what_is_no_structure_is_named(tmp_path):
    write_lmdb(tmp_path / "data.lmdb", [graph_pickle({"y": 1.0}, version=2)])
    with pytest.raises(DataError, match=r"data\.lmdb, key 0 has no 'atomic_numbers'; it is not a structure of OC20"):
        read_frames(tmp_path / "data.lmdb")
    write_lmdb(tmp_path / "other.lmdb", [pickle.dumps(pytest.raises)])
    with pytest.raises(DataError, match=r"other\.lmdb, key 0 is a Python pickle with .*raises, which could run code"):
        read_frames(tmp_path / "other.lmdb")
    (tmp_path / "list.pkl").write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(DataError, match=r"list\.pkl is a Python pickle, which could run code when opened"):
        read_frames(tmp_path / "list.pkl")


def test_trap_1_2_3_real_s2ef(real_data):
    path = real_data / "oc20/tutorial_lmdb/s2ef/val_20/data.lmdb"
    frames, source = read_frames(path)
    assert (len(frames), source.format, source.warnings) == (20, "Open Catalyst LMDB", ())
    for frame in frames:
        assert frame.has_energy
        assert frame.has_forces
        assert frame.id is not None
        assert 0 < frame.fixed.sum() < len(frame.structure)
        assert abs(frame.energy) < 20  # an adsorption energy
    assert frames[10].structure.name.startswith("data.lmdb, frame 10 (sid ")
    np.testing.assert_array_equal(frames[0].tags == 0, frames[0].fixed)


def test_trap_2_4_real_is2re(real_data):
    path = real_data / "oc20/tutorial_lmdb/is2re/val_20/data.lmdb"
    frames, source = read_frames(path)
    assert (len(frames), source.format) == (20, "Open Catalyst LMDB (IS2RE)")
    assert all(frame.has_energy and frame.forces is None for frame in frames)
    raw, nearest = [], []
    for record in read_lmdb(path, None).records:
        assert record.properties["energy"] <= record.properties["y_init"] + 1e-6
        moved = record.properties["pos_relaxed"].astype(float) - record.positions
        raw.append(np.linalg.norm(moved, axis=1).max())
        nearest.append(find_mic(moved, record.cell, record.pbc)[1].max())
    assert max(raw) > 20
    assert max(nearest) < 4.3


def test_real_oc22(real_data):
    objects, source = read_frames(real_data / "oc22/oc22_pickle16_train.pkl")
    assert (len(objects), source.format) == (16, "Open Catalyst pickle")
    folder, _ = read_frames(real_data / "oc22/derived_lmdb/s2ef-total/train")
    for left, right in zip(objects, folder, strict=True):
        assert left.energy == right.energy
        np.testing.assert_array_equal(left.forces, right.forces)
        np.testing.assert_array_equal(left.fixed, right.fixed)
    assert objects[0].energy < -50  # a total energy


def test_ase_lmdb_is_still_found(real_data):
    assert find_reader(real_data / "oc20/derived_s2ef.aselmdb").__module__.endswith("aselmdb")
