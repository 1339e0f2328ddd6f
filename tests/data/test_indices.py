import json

import numpy as np
import pytest

from cliffordstf.data.indices import read_indices
from cliffordstf.errors import DataError


def test_text_and_npy(tmp_path):
    path = tmp_path / "index_train_01.csv"
    path.write_text("3\n1\n4\n")
    assert read_indices(path, 5).tolist() == [3, 1, 4]
    with pytest.raises(DataError, match="indices outside 0 to 3"):
        read_indices(path, 4)
    path.write_text("three\n")
    with pytest.raises(DataError, match="does not hold whole numbers"):
        read_indices(path, 4)
    with pytest.raises(DataError, match="there is no index file"):
        read_indices(tmp_path / "none.csv", 4)
    np.save(tmp_path / "a.npy", np.array([2.0, 0.0]))
    assert read_indices(tmp_path / "a.npy", 4).tolist() == [2, 0]
    np.save(tmp_path / "a.npy", np.array([2.5]))
    with pytest.raises(DataError, match="does not hold whole numbers"):
        read_indices(tmp_path / "a.npy", 4)


def test_lists_by_name_in_json(tmp_path):
    path = tmp_path / "random_split_inds.json"
    path.write_text(json.dumps({"train": [0, 1], "valid": [2], "test": [5, 4, 3]}))
    assert read_indices(f"{path}:valid", 6).tolist() == [2]
    with pytest.raises(DataError, match=r"no list 'tset' \(did you mean 'test'\?\); write random_split_inds.json:NAME"):
        read_indices(f"{path}:tset", 6)
    with pytest.raises(DataError, match="with one of train, valid, test"):
        read_indices(path, 6)
    single = tmp_path / "list.json"
    single.write_text("[1, 0]")
    assert read_indices(single, 2).tolist() == [1, 0]
    with pytest.raises(DataError, match="leave ':train' out"):
        read_indices(f"{single}:train", 2)
    single.write_text("[1, ")
    with pytest.raises(DataError, match="does not hold whole numbers"):
        read_indices(single, 2)


def test_trap_7_the_divided_test_set_counts_within_the_test_set(tmp_path):
    path = tmp_path / "random_test_split_inds.json"
    path.write_text(json.dumps({"train": [2, 0], "test": [3]}))
    with pytest.raises(DataError, match=r"counts within the test set of random_split_inds\.json, which is not beside"):
        read_indices(f"{path}:train", 6)
    (tmp_path / "random_split_inds.json").write_text(json.dumps({"test": [5, 4, 3]}))
    assert read_indices(f"{path}:train", 6).tolist() == [3, 5]
    with pytest.raises(DataError, match="does not fit the test set"):
        read_indices(f"{path}:test", 6)


def test_trap_7_real_splits(real_data):
    folder = real_data / "molecule3d/layout_fixture_from_qm9/data/raw"
    whole = [set(read_indices(f"{folder}/random_split_inds.json:{name}", 400)) for name in ("train", "valid", "test")]
    assert len(set.union(*whole)) == 400
    assert [len(part) for part in whole] == [240, 80, 80]
    again = [
        set(read_indices(f"{folder}/random_test_split_inds.json:{name}", 400)) for name in ("train", "valid", "test")
    ]
    assert set.union(*again) == whole[2]
