"""Official splits: files that hold the indices of a training, validation or test set."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cliffordstf.errors import DataError
from cliffordstf.options.text import did_you_mean

OF_THE_TEST_SET = "_test_split_inds.json"
WHOLE = "_split_inds.json"
"""Molecule3D divides its test set again: random_test_split_inds.json counts within `test` of random_split_inds.json."""


def read_indices(address: Path | str, total: int) -> NDArray[np.int64]:
    """Indices counted from 0, as the official files of rMD17 and Molecule3D do.

    Args:
        address: A text, csv or npy file with one index per entry; or FILE.json:NAME for the list of that name.
        total: Number of structures to pick from.

    Raises:
        DataError: There is no such file or list, or it does not fit the data.
    """
    file, colon, name = str(address).rpartition(".json:")
    path = Path(file + ".json") if colon else Path(address)
    if not path.is_file():
        raise DataError(f"there is no index file {path}; check the path.")
    try:
        indices = _from_json(path, name if colon else None) if path.suffix == ".json" else _from_numbers(path)
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{path} does not hold whole numbers ({error}); give one index per line.") from None
    if len(indices) == 0 or indices.min() < 0 or indices.max() >= total:
        raise DataError(f"{address} holds indices outside 0 to {total - 1}; it belongs to another data file.")
    return indices


def _from_numbers(path: Path) -> NDArray[np.int64]:
    if path.suffix == ".npy":
        return _whole(np.load(path, allow_pickle=False))
    return _whole(np.loadtxt(path, delimiter=",", dtype=np.int64, ndmin=1))


def _whole(values: Any) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.size and (array.dtype.kind not in "iuf" or not np.array_equal(array, np.floor(array))):
        raise ValueError(f"but values of type {array.dtype}")
    return array.astype(np.int64).reshape(-1)


def _from_json(path: Path, name: str | None) -> NDArray[np.int64]:
    lists = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(lists, dict):
        if name not in lists:
            raise DataError(
                f"{path} has no list '{name or ''}'{did_you_mean(name or '', lists)}; write "
                f"{path.name}:NAME with one of {', '.join(lists)}."
            )
        lists = lists[name]
    elif name is not None:
        raise DataError(f"{path} holds one list without a name; leave ':{name}' out.")
    indices = _whole(lists)
    if not path.name.endswith(OF_THE_TEST_SET):
        return indices
    whole = path.with_name(path.name.removesuffix(OF_THE_TEST_SET) + WHOLE)
    if not whole.is_file():
        raise DataError(f"{path} counts within the test set of {whole.name}, which is not beside it; put it there.")
    test = _from_json(whole, "test")
    if len(indices) and not 0 <= indices.min() <= indices.max() < len(test):
        raise DataError(f"{path} does not fit the test set of {whole.name}; take both from one download.")
    return test[indices]
