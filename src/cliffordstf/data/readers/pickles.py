"""Open the pickles of PyTorch Geometric without running code: an allow-list, and stand-ins for everything on it.

A pickle names the functions and classes that it wants called. Here it gets none of the real ones, only the few below,
which do nothing but keep numbers; any other name is refused.
"""

import io
import math
import pickle
import pickletools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cliffordstf.errors import DataError

CODE = "which could run code when opened, and is not read"

_TORCH_DTYPES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "?",
}
_GEOMETRIC = ("torch_geometric.data.data", "torch_geometric.data.storage")
_GEOMETRIC_CLASSES = {"Data", "DataEdgeAttr", "DataTensorAttr", "GlobalStorage"}


class _Closed(type):
    """Of classes that a pickle cannot change: it could otherwise spoil every file that is opened after it."""

    def __setattr__(cls, name: str, value: Any) -> None:
        raise pickle.UnpicklingError(f"the attribute '{name}' of a class")


class GraphObject(metaclass=_Closed):
    """In the place of `torch_geometric.data.Data` and what it is made of: attributes, and nothing else."""

    def fields(self) -> dict[str, Any]:
        """What the object holds: PyG 1 keeps it in the object itself, PyG 2 in the mapping of a store."""
        own = vars(self)
        store = own.get("_store")
        found = vars(store).get("_mapping") if isinstance(store, GraphObject) else own
        return dict(found) if isinstance(found, dict) else {}


class Storage(metaclass=_Closed):
    """The numbers behind a tensor, kept as bytes until they are asked for."""

    def __init__(self, content: bytes) -> None:
        self._content = bytes(content)

    def numpy(self) -> NDArray[Any]:
        """All numbers, one-dimensional."""
        reader = _StorageReader(io.BytesIO(self._content))
        dtype = reader.dtype()
        return np.frombuffer(self._content, dtype=dtype, offset=reader.stream.tell())


class _StorageReader(pickle.Unpickler):
    """Reads what `torch.save` wrote before 1.6: four pickles (the last names the storage), keys, the bytes."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        self.stream = stream

    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers; the stream then stands at the first of them."""
        for _ in range(3):  # magic number, version, machine
            self.load()
        kind, *_ = self.load()
        self.load()  # keys of the storages: there is one
        self.stream.read(8)  # number of entries
        return np.dtype(kind)

    def persistent_load(self, pid: Any) -> Any:
        """Take the type and the size of the storage that the pickle refers to."""
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
            raise pickle.UnpicklingError("not a storage of PyTorch")
        return pid[1], pid[4]

    def find_class(self, module: str, name: str) -> str:
        """Type of the numbers by the name of the storage's class."""
        if module != "torch" or name not in _TORCH_DTYPES:
            raise pickle.UnpicklingError(f"a storage of kind {module}.{name}")
        return _TORCH_DTYPES[name]


class Tensor(metaclass=_Closed):
    """In the place of `torch.Tensor`: where its numbers are in a storage."""

    def __init__(self, storage: Storage, offset: int, size: Any, stride: Any, *_: Any) -> None:
        self._storage, self._offset = storage, int(offset)
        self._size, self._stride = tuple(map(int, size)), tuple(map(int, stride))

    def numpy(self) -> NDArray[Any]:
        """A copy of the numbers in the tensor's shape."""
        numbers = self._storage.numpy()[self._offset :]
        if 0 in self._size:
            return np.zeros(self._size, dtype=numbers.dtype)
        reach = 1 + sum((n - 1) * step for n, step in zip(self._size, self._stride, strict=True))
        # A view beyond the storage would read foreign memory; one larger than it could fill all of it.
        negative = min((self._offset, *self._size, *self._stride)) < 0
        if negative or max(reach, math.prod(self._size)) > len(numbers):
            raise pickle.UnpicklingError("a tensor that is larger than its storage")
        strides = [step * numbers.itemsize for step in self._stride]
        return np.lib.stride_tricks.as_strided(numbers, self._size, strides).copy()


class _Dtype(metaclass=_Closed):
    """In the place of `numpy.dtype`."""

    def __init__(self, code: str, *_: Any) -> None:
        self._code, self._order = str(code), "="

    def __setstate__(self, state: Any) -> None:
        self._order = {"<": "<", ">": ">"}.get(state[1], "=")

    def real(self) -> np.dtype[Any]:
        """The type, if it is one of plain numbers or letters."""
        found = np.dtype(self._order + self._code)
        if found.kind not in "biufcSU":
            raise pickle.UnpicklingError(f"numbers of type {self._code}")
        return found


class Array(metaclass=_Closed):
    """In the place of `numpy.ndarray`."""

    def __init__(self, *_: Any) -> None:
        self._values: NDArray[Any] = np.zeros(0)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, by_columns, content = state
        self._values = _array(content, dtype, shape, "F" if by_columns else "C")

    def numpy(self) -> NDArray[Any]:
        """The numbers."""
        return self._values


def _array(content: Any, dtype: _Dtype, shape: Any, order: Any = "C") -> NDArray[Any]:
    return np.frombuffer(bytes(content), dtype=dtype.real()).reshape(tuple(shape), order=order)


class _Buffer(metaclass=_Closed):
    """In the place of `numpy.core.numeric._frombuffer`; a class, because functions can be changed."""

    def __new__(cls, content: Any, dtype: _Dtype, shape: Any, order: Any = "C") -> Any:
        return _array(content, dtype, shape, order)


class _Scalar(metaclass=_Closed):
    """In the place of `numpy.core.multiarray.scalar`."""

    def __new__(cls, dtype: _Dtype, content: bytes) -> Any:
        return np.frombuffer(content, dtype=dtype.real())[0].item()


def _allowed() -> dict[tuple[str, str], Callable[..., Any]]:
    found: dict[tuple[str, str], Callable[..., Any]] = {
        ("collections", "OrderedDict"): OrderedDict,
        ("torch._utils", "_rebuild_tensor"): Tensor,
        ("torch._utils", "_rebuild_tensor_v2"): Tensor,
        ("torch.storage", "_load_from_bytes"): Storage,
        ("numpy", "dtype"): _Dtype,
        ("numpy", "ndarray"): Array,
    }
    for package in ("numpy.core", "numpy._core"):
        found[f"{package}.multiarray", "_reconstruct"] = Array
        found[f"{package}.multiarray", "scalar"] = _Scalar
        found[f"{package}.numeric", "_frombuffer"] = _Buffer
    found.update({(module, name): GraphObject for module in _GEOMETRIC for name in _GEOMETRIC_CLASSES})
    return found


_ALLOWED = _allowed()


class _Forbidden(Exception):  # noqa: N818  (it never leaves this file)
    """A name that is not on the list."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """A stand-in, or nothing."""
        if (module, name) not in _ALLOWED:
            raise _Forbidden(f"{module}.{name}".encode("unicode_escape").decode())
        return _ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> NoReturn:
        """Nothing outside of the pickle is loaded."""
        raise _Forbidden(f"a reference to {pid!r:.60}")


def _check_memo(content: bytes) -> None:
    """Refuse numbers of remembered objects beyond the size of the pickle: memory is taken for all below them."""
    for operation, argument, _ in pickletools.genops(content):
        if operation.code in "pr" and isinstance(argument, int) and not 0 <= argument <= len(content):
            raise pickle.UnpicklingError(f"it remembers an object under number {argument}")


def load_pickle(content: bytes, where: str) -> Any:
    """The content of a pickle, with stand-ins for tensors, arrays and graph objects.

    Args:
        content: The pickle.
        where: How errors refer to it, for example `data.lmdb, key 12`.

    Raises:
        DataError: It names something that is not on the list, or is damaged.
    """
    try:
        _check_memo(content)
        return _Unpickler(io.BytesIO(content)).load()
    except _Forbidden as error:
        raise DataError(
            f"{where} is a Python pickle with {error}, {CODE}; convert it to extended XYZ or ASE-LMDB."
        ) from None
    except Exception as error:  # a damaged pickle can raise anything
        raise DataError(
            f"{where} is a damaged pickle ({type(error).__name__}: {' '.join(str(error).split())}); copy it again."
        ) from error


def plain(value: Any) -> Any:
    """A stand-in as a NumPy array; anything else as it is."""
    return value.numpy() if isinstance(value, Tensor | Array) else value
