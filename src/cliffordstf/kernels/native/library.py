"""Load the built kernels and describe their arguments to ctypes."""

import ctypes
import logging
import os
from collections.abc import Mapping
from ctypes import POINTER, Structure, c_double, c_int32, c_int64, c_void_p
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import Tensor

from cliffordstf.kernels.native.build import BuildError
from cliffordstf.kernels.native.built import built_library

logger = logging.getLogger(__name__)

_PREFIX = {torch.float32: "s", torch.float64: "d"}


def _fields(integers: str, pointers: str) -> list[tuple[str, Any]]:
    return [*((name, c_int64) for name in integers.split()), *((name, c_void_p) for name in pointers.split())]


class EdgeArgs(Structure):
    """`EdgeArgs` in edge.h."""

    _fields_ = (
        _fields("paths matrix source edge target rows", "path matrix_pointers entry_edge entry_value path_pointers")
        + _fields("", "transposed_edge transposed_pointers transposed_matrix transposed_value")
        + _fields("atoms edges channels", "row_pointers neighbours receivers reverse")
        + _fields("pairs", "pair pair_edges")
        + _fields("", "h w f Y g uh uw uf uY out dh dw df dY")
        + _fields("add_h chunks threads", "")
    )


class FrameTurns(Structure):
    """`FrameTurns` in frame.h."""

    _fields_ = _fields("count", "pointers element value")


class FrameSide(Structure):
    """`FrameSide` in frame.h."""

    _fields_ = [
        *_fields("components tracks orders", "track order link"),
        ("turns", FrameTurns * 2),
        *_fields("", "given_pointers given_column given_value taken_pointers taken_column taken_value"),
    ]


class ConvolutionArgs(Structure):
    """`ConvolutionArgs` in numbers.h."""

    _fields_ = [
        *_fields("rows numbers folds", "fold fold_value"),
        ("source", FrameSide),
        ("target", FrameSide),
        *_fields("lmax size", "raise_pointers raise_entry raise_value"),
        *_fields("atoms", "row_pointers senders receivers"),
        *_fields("pairs", "pair_edges"),
        *_fields("channels radial", ""),
        *_fields("", "h phi U n g uh uphi uU un out dh dphi dU dn"),
        *_fields("add_h add_phi add_U add_n", "folded_U kept"),
        *_fields("is_kept", ""),
        *_fields("chunks threads", ""),
    ]


class NodeArgs(Structure):
    """`NodeArgs` in node.h."""

    _fields_ = (
        _fields("paths left right target rows", "path entry")
        + _fields("atoms channels groups", "group x y w g ux uy uw out dx dy dw")
        + _fields("add_x add_y add_w chunks threads", "")
    )


class LinearArgs(Structure):
    """`LinearArgs` in linear.h."""

    _fields_ = [
        *_fields("tracks", "track"),
        *_fields("atoms source target inputs outputs", "x w g y dx dw"),
        ("scale", c_double),
        *_fields("ready add_y add_x add_w threads", ""),
    ]


class GateArgs(Structure):
    """`GateArgs` in gate.h."""

    _fields_ = [
        *_fields("tracks", "track"),
        *_fields("atoms components channels", "x z b g ux uz ub out dx dz db"),
        ("silu_gain", c_double),
        ("sigmoid_gain", c_double),
        *_fields("add_x add_z add_b chunks threads", ""),
    ]


class AttentionArgs(Structure):
    """`AttentionArgs` in attention.h."""

    _fields_ = [
        *_fields("atoms channels heads", "row_pointers neighbours pair queries keys bias out"),
        *_fields("threads", ""),
    ]


class MuonMatrices(Structure):
    """`MuonMatrices` in muon.h."""

    _fields_ = [*_fields("", "weights gradient momentum"), *_fields("count rows columns", "")]


class MuonArgs(Structure):
    """`MuonArgs` in muon.h."""

    _fields_ = [
        *_fields("stacks", ""),
        ("stack", POINTER(MuonMatrices)),
        ("rate", c_double),
        ("momentum", c_double),
        ("decay", c_double),
        *_fields("threads", ""),
    ]


Args: TypeAlias = EdgeArgs | ConvolutionArgs | NodeArgs | GateArgs | AttentionArgs | MuonArgs


class Library:
    """The kernels of one precision."""

    def __init__(self, loaded: ctypes.CDLL, dtype: torch.dtype) -> None:
        prefix = _PREFIX[dtype]
        lanes = getattr(loaded, f"{prefix}_lanes")
        lanes.restype = c_int32
        self.lanes: int = lanes()
        kinds: Mapping[str, tuple[type[Structure], tuple[str, ...]]] = {
            "edge": (EdgeArgs, ("forward", "backward", "second")),
            "convolution": (ConvolutionArgs, ("forward", "backward", "second")),
            "node": (NodeArgs, ("forward", "backward", "second")),
            "gate": (GateArgs, ("forward", "backward", "second")),
            "attention": (AttentionArgs, ("forward",)),
            "muon": (MuonArgs, ("update",)),
        }
        self._functions: dict[str, Any] = {}
        for kind, (args, names) in kinds.items():
            for name in names:
                function = getattr(loaded, f"{prefix}_{kind}_{name}")
                function.argtypes, function.restype = [POINTER(args)], None
                self._functions[f"{kind}_{name}"] = function
        for name in ("forward", "backward"):
            function = getattr(loaded, f"{prefix}_linear_{name}")
            function.argtypes, function.restype = [POINTER(LinearArgs), c_int64], None
            self._functions[f"linear_{name}"] = function

    def call(self, name: str, args: Args) -> None:
        """Run a kernel; the interpreter's lock is released meanwhile."""
        self._functions[name](ctypes.byref(args))

    def call_linear(self, name: str, args: "ctypes.Array[LinearArgs]") -> None:
        """Run a linear kernel on several terms."""
        self._functions[f"linear_{name}"](args, len(args))


@cache
def library(dtype: torch.dtype) -> Library | None:
    """The kernels of a precision, or None where they cannot be had; the first failure is logged once."""
    if dtype not in _PREFIX:
        return None
    found = loaded(dtype)
    return None if found is None else Library(found, dtype)


def loaded(dtype: torch.dtype) -> ctypes.CDLL | None:
    """The shared library of a precision, or None where it cannot be had."""
    return _load("float" if dtype == torch.float32 else "double")


@cache
def _load(precision: str) -> ctypes.CDLL | None:
    if os.environ.get("CLIFFORDSTF_KERNELS", "") == "reference":
        return None
    try:
        path = built_library(precision)
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            # PyTorch's OpenMP runtime is out of reach here: bring the system's into the process first.
            ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(str(path))
    except (BuildError, OSError) as error:
        _say_once(str(error))
        return None


@cache
def _say_once(reason: str) -> None:
    """The same reason holds for every precision."""
    logger.warning("the compiled kernels are not available (%s); plain PyTorch is used instead, slower.", reason)


def pointer(tensor: Tensor | None) -> int | None:
    """Address of a contiguous tensor's values, None for no tensor."""
    return None if tensor is None else tensor.data_ptr()


def threads_for(work: float) -> int:
    """How many threads to use for an amount of work, in multiply-adds: below 5·10^5 each, waking them costs more."""
    return max(1, min(torch.get_num_threads(), int(work / 5e5)))


def chunks_for(edges: int, fewest: int = 64) -> int:
    """In how many parts to deal out edges: enough to balance the threads, few enough that partial sums stay small.

    Args:
        edges: How many there are.
        fewest: Edges that are worth a part of their own.
    """
    return max(1, min(64, edges // fewest))
