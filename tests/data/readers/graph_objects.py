"""Pickles as PyTorch Geometric 1 and 2 write them, made without it."""

import pickle
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import torch

DATA, STORAGE = "torch_geometric.data.data", "torch_geometric.data.storage"


@contextmanager
def _geometric() -> Iterator[dict[str, type]]:
    """Modules of that name with empty classes, for as long as something is pickled."""
    places = {"Data": DATA, "DataEdgeAttr": DATA, "DataTensorAttr": DATA, "GlobalStorage": STORAGE}
    classes = {name: type(name, (), {"__module__": module}) for name, module in places.items()}
    saved = {name: module for name, module in sys.modules.items() if name.startswith("torch_geometric")}
    try:
        for module in ("torch_geometric", "torch_geometric.data", DATA, STORAGE):
            sys.modules[module] = types.ModuleType(module)
        for name, module in places.items():
            setattr(sys.modules[module], name, classes[name])
        yield classes
    finally:
        for module in [name for name in sys.modules if name.startswith("torch_geometric")]:
            del sys.modules[module]
        sys.modules.update(saved)


def graph_pickle(*objects: dict[str, Any], version: int, as_list: bool = False) -> bytes:
    """One object, or a list of them, pickled."""
    with _geometric() as classes:
        items = [_object(classes, fields, version) for fields in objects]
        return pickle.dumps(items if as_list else items[0], protocol=4)


def _object(classes: dict[str, type], fields: dict[str, Any], version: int) -> Any:
    item = classes["Data"]()
    if version == 1:
        vars(item).update({"x": None, "edge_attr": None, **fields})
        return item
    store = classes["GlobalStorage"]()
    vars(store).update({"_mapping": fields, "_parent": item})
    vars(item).update({"_edge_attr_cls": classes["DataEdgeAttr"], "_store": store})
    return item


def slab(number: int, **more: Any) -> dict[str, Any]:
    """Three atoms in a box as OC20 has them: numbers and masks are float32, the cell has one dimension too many."""
    return {
        "edge_index": torch.zeros((2, 5), dtype=torch.int64),
        "pos": torch.arange(9.0).reshape(3, 3) + number,
        "cell": 10 * torch.eye(3)[None],
        "atomic_numbers": torch.tensor([29.0, 29.0, 8.0]),
        "fixed": torch.tensor([1.0, 0.0, 0.0]),
        "tags": torch.tensor([0, 1, 2]),
        "natoms": 3,
        **more,
    }


def write_lmdb(path: Path, values: list[bytes], length: int | None = None) -> None:
    """Values under the keys 0, 1, …, and their number under `length` if one is given."""
    environment = lmdb.open(str(path), subdir=False, map_size=2**24, lock=False)
    with environment.begin(write=True) as transaction:
        for index, value in enumerate(values):
            transaction.put(str(index).encode(), value)
        if length is not None:
            transaction.put(b"length", pickle.dumps(length))
    environment.close()
