import builtins
import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch

from cliffordstf.data.readers.pickles import GraphObject, Tensor, load_pickle, plain
from cliffordstf.errors import DataError
from tests.data.readers.graph_objects import graph_pickle


class Calls:
    """Pickled as a call of any function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("version", [1, 2])
def test_graph_objects_of_both_generations(version):
    found = load_pickle(graph_pickle({"y": 1.5, "pos": torch.ones(2, 3)}, version=version), "here")
    assert isinstance(found, GraphObject)
    assert found.fields()["y"] == 1.5
    np.testing.assert_array_equal(plain(found.fields()["pos"]), np.ones((2, 3)))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12, dtype=torch.int64).reshape(3, 4).T[1:],
        torch.tensor(2.5, dtype=torch.float64),
        torch.tensor([True, False]),
        torch.zeros((0, 3)),
        torch.arange(5, dtype=torch.float16)[::2],
        torch.arange(4, dtype=torch.uint8),
    ],
    ids=["transposed", "scalar", "bool", "empty", "strided", "bytes"],
)
@pytest.mark.parametrize("protocol", [4, 5])
def test_tensors_come_out_as_they_went_in(tensor, protocol):
    found = plain(load_pickle(pickle.dumps(tensor, protocol), "here"))
    np.testing.assert_array_equal(found, tensor.numpy())
    assert found.dtype == tensor.numpy().dtype


@pytest.mark.parametrize("protocol", [4, 5])
def test_arrays_and_plain_values(protocol):
    array = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    value = {"a": array, "b": np.float64(0.5), "c": OrderedDict(d=[1, "e", None])}
    found = load_pickle(pickle.dumps(value, protocol), "here")
    np.testing.assert_array_equal(plain(found["a"]), array)
    assert found["b"] == 0.5
    assert found["c"] == {"d": [1, "e", None]}


@pytest.mark.parametrize(
    ("function", "argument"),
    [(os.system, "true"), (builtins.eval, "1"), (torch.load, "file"), (getattr, "a"), (np.load, "file")],
)
def test_anything_else_is_refused(function, argument):
    with pytest.raises(DataError, match=r"^here is a Python pickle with [\w.]+, which could run code") as caught:
        load_pickle(pickle.dumps([1, Calls(function, argument)]), "here")
    assert "\n" not in str(caught.value)


def test_a_refused_call_was_not_made(tmp_path):
    with pytest.raises(DataError, match="could run code"):
        load_pickle(pickle.dumps(Calls(os.mkdir, str(tmp_path / "made"))), "here")
    assert not (tmp_path / "made").exists()


def test_code_hidden_in_the_storage_of_a_tensor_is_refused(tmp_path):
    inner = pickle.dumps(Calls(os.mkdir, str(tmp_path / "made")))
    found = load_pickle(pickle.dumps(Calls(torch.storage._load_from_bytes, inner)), "here")
    with pytest.raises(pickle.UnpicklingError):
        found.numpy()
    assert not (tmp_path / "made").exists()


def test_arrays_of_objects_are_refused():
    with pytest.raises(DataError, match="here is a damaged pickle"):
        load_pickle(pickle.dumps(np.array([{}, []], dtype=object)), "here")


def test_a_tensor_cannot_reach_beyond_its_storage():
    content = pickle.dumps(torch.zeros(4))
    storage = load_pickle(content, "here")._storage
    for offset, size, stride in [(0, (5,), (1,)), (2, (3,), (1,)), (0, (2,), (-1,)), (-1, (1,), (1,)), (0, (9,), (0,))]:
        with pytest.raises(pickle.UnpicklingError, match="larger than its storage"):
            Tensor(storage, offset, size, stride).numpy()


def test_damaged_pickles_are_one_sentence():
    with pytest.raises(DataError, match="here is a damaged pickle"):
        load_pickle(pickle.dumps([1, 2, 3])[:-3], "here")
