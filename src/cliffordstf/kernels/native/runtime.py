"""The C++ runtime: schedules that are evaluated, differentiated and trained without PyTorch or the interpreter."""

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels.native.library import loaded

PRECISIONS = {torch.float32: "float32", torch.float64: "float64"}
PASSES = ("forward", "backward", "second", "last")


class Graph(Structure):
    """`Graph` in chunks.h."""

    _fields_ = [
        ("atoms", c_int64),
        *((name, c_void_p) for name in ("row_pointers", "senders", "receivers")),
        ("pairs", c_int64),
        ("pair_edges", c_void_p),
    ]


class Evaluation(Structure):
    """`Evaluation` in runtime.h; addresses, null for what is not there or not wanted."""

    _fields_ = [
        (name, c_void_p)
        for name in (
            *("positions", "cells", "shifts", "vectors", "order"),
            *("energies", "atom_energies", "forces", "virials", "atom_virials", "pair_gradients"),
        )
    ]


class Description(Structure):
    """`cstf_description` in cliffordstf.h."""

    _fields_ = [
        ("cutoff", c_double),
        ("elements", c_int64),
        ("numbers", c_void_p),
        ("layers", c_int64),
        ("lanes", c_int64),
        ("widest", c_int64),
        ("constant", c_double),
        ("is_mean", c_int),
    ]


class RuntimeLibraryError(RuntimeError):
    """Error of the C++ runtime, with its own words."""


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "cstf_error": (c_char_p, []),
    "cstf_open_memory": (c_void_p, [c_char_p, c_size_t, c_char_p]),
    "cstf_close": (None, [c_void_p]),
    "cstf_describe": (None, [c_void_p, POINTER(Description)]),
    "cstf_workspace_new": (c_void_p, [c_void_p]),
    "cstf_workspace_free": (None, [c_void_p]),
    "cstf_set_threads": (c_int, [c_void_p, c_int64]),
    "cstf_set_memory": (c_int, [c_void_p, c_double]),
    "cstf_set_edges": (c_int, [c_void_p, POINTER(Graph), c_void_p, c_int64, c_void_p]),
    "cstf_evaluate_at": (c_int, [c_void_p, POINTER(Evaluation)]),
    "cstf_train_forward": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "cstf_train_backward": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(c_void_p)]),
    "cstf_set_weights": (c_int, [c_void_p, POINTER(c_void_p)]),
    "cstf_weights": (c_int64, [c_void_p]),
    "cstf_weight_name": (c_char_p, [c_void_p, c_int64]),
    "cstf_operators": (c_int64, [c_void_p]),
    "cstf_operator_name": (c_char_p, [c_void_p, c_int64]),
    "cstf_profile": (c_int, [c_void_p, c_int, c_void_p]),
}


class _Functions:
    """The functions of the library of one precision; those that can fail raise."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        self.library = library

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self.library, f"cstf_{name}")
        setattr(self, name, function)
        return function

    def check(self, code: int) -> None:
        """Raise what the last call of this thread failed with."""
        if code:
            raise RuntimeLibraryError(self.library.cstf_error().decode(errors="replace"))


@cache
def _functions(dtype: torch.dtype) -> _Functions | None:
    library = loaded(dtype)
    return None if library is None else _Functions(library)


def is_available(dtype: torch.dtype) -> bool:
    """Whether there is a runtime of this precision."""
    return dtype in PRECISIONS and _functions(dtype) is not None


class NativeModel:
    """A model of the runtime.

    Args:
        content: An exported model, as the bytes of its file.
        dtype: Precision that it computes in.

    Raises:
        RuntimeLibraryError: It is damaged.
    """

    def __init__(self, content: bytes, dtype: torch.dtype) -> None:
        functions = _functions(dtype)
        assert functions is not None
        self.functions, self.dtype = functions, dtype
        self.handle = functions.open_memory(content, len(content), PRECISIONS[dtype].encode())
        if not self.handle:
            raise RuntimeLibraryError(functions.error().decode(errors="replace"))

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.functions.close(self.handle)

    @property
    def weight_names(self) -> list[str]:
        """Names of the weights in the runtime's order."""
        count = self.functions.weights(self.handle)
        return [self.functions.weight_name(self.handle, index).decode() for index in range(count)]

    @property
    def operator_names(self) -> list[str]:
        """Kinds of the operators in their order."""
        count = self.functions.operators(self.handle)
        return [self.functions.operator_name(self.handle, index).decode() for index in range(count)]

    @property
    def lanes(self) -> int:
        """Numbers in a vector of this machine."""
        found = Description()
        self.functions.describe(self.handle, ctypes.byref(found))
        return int(found.lanes)

    def set_weights(self, addresses: "ctypes.Array[c_void_p]") -> None:
        """Copy weights from where they are, in the order of `weight_names`, in the model's precision."""
        self.functions.check(self.functions.set_weights(self.handle, addresses))


class NativeWorkspace:
    """Memory to evaluate one batch after another; for one thread at a time."""

    def __init__(self, model: NativeModel) -> None:
        self.model, self._functions = model, model.functions
        self._handle = self._functions.workspace_new(model.handle)
        if not self._handle:
            raise RuntimeLibraryError(self._functions.error().decode(errors="replace"))
        self._threads = 0
        self._edges: tuple[object, ...] = ()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._functions.workspace_free(self._handle)

    def set_memory(self, size: float) -> None:
        """Bytes that may be kept between the way forward and back."""
        self._functions.check(self._functions.set_memory(self._handle, size))

    def set_edges(self, edges: EdgeIndex, numbers: Tensor, structures: int, structure_of_atom: Tensor) -> None:
        """Take the edges of a batch, which are kept alive; nothing to do for those of the last call."""
        threads = torch.get_num_threads()
        if threads != self._threads:
            self._functions.check(self._functions.set_threads(self._handle, threads))
            self._threads = threads
        known = (*edges, numbers, structure_of_atom)
        if len(known) == len(self._edges) and all(map(_is_same, known, self._edges)):
            return
        self._edges = ()
        graph = Graph(
            len(numbers),
            edges.row_pointers.data_ptr(),
            edges.senders.data_ptr(),
            edges.receivers.data_ptr(),
            len(edges.pair_edges),
            edges.pair_edges.data_ptr(),
        )
        several = structure_of_atom.data_ptr() if structures > 1 else None
        code = self._functions.set_edges(self._handle, ctypes.byref(graph), numbers.data_ptr(), structures, several)
        self._functions.check(code)
        self._edges = known

    def evaluate(self, evaluation: Evaluation) -> None:
        """Fill in the results that have an address."""
        self._functions.check(self._functions.evaluate_at(self._handle, ctypes.byref(evaluation)))

    def train_forward(self, vectors: Tensor, energies: Tensor, gradients: Tensor | None) -> None:
        """Fill in energies (atoms,) and, if wanted, gradients (pairs, 3) at vectors, float64 (pairs, 3)."""
        pointers = vectors.data_ptr(), energies.data_ptr(), None if gradients is None else gradients.data_ptr()
        self._functions.check(self._functions.train_forward(self._handle, *pointers))

    def train_backward(
        self, of_energies: Tensor, of_gradients: Tensor | None, weights: "ctypes.Array[c_void_p]"
    ) -> None:
        """Add to the gradients of the weights, from a loss's gradients of what `train_forward` filled in."""
        pointers = of_energies.data_ptr(), None if of_gradients is None else of_gradients.data_ptr()
        self._functions.check(self._functions.train_backward(self._handle, *pointers, weights))

    def profile(self, on: bool) -> NDArray[np.float64]:
        """Seconds since the last call by operator and pass, (operators, 4); from now on they are measured or not."""
        found = np.zeros((len(self.model.operator_names), len(PASSES)))
        self._functions.check(self._functions.profile(self._handle, int(on), found.ctypes.data))
        return found


def addresses(tensors: Sequence[Tensor]) -> "ctypes.Array[c_void_p]":
    """Where tensors are, as the runtime takes them."""
    return (c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


def _is_same(one: object, other: object) -> bool:
    return one is other
