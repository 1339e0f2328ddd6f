"""How fast this machine can be at most: arithmetic in registers, matrix products, copies of several sizes."""

import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import torch

WARM_UP = 1.0
"""Seconds of work before anything is measured: a processor needs about as long to settle on a clock."""
SHAPES = ((64, 64, 64), (128, 128, 128), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (4096, 64, 256))
"""Matrix products, rows by inner by columns; the small ones fit into the caches of a core."""
COPIES = (0.5e6, 2e6, 8e6, 32e6, 160e6)
"""Bytes read and written by a copy, from what a core's cache holds to what no cache does."""
REGISTERS, PRODUCTS = "multiply-adds in registers", "matrix products"
FLAGS = ("-std=c++17", "-O3", "-fPIC", "-pthread", "-shared")


@dataclass(frozen=True)
class Machine:
    """Measured peaks.

    Attributes:
        gflops: Of float32 arithmetic, 10^9 operations/s, of all threads that are used.
        bandwidth: Of a large copy, 10^9 bytes/s read and written.
        arithmetic: What reached `gflops`.
        products: Best rate of matrix products, 10^9 operations/s.
        copies: 10^9 bytes/s by the bytes that a copy reads and writes.
    """

    gflops: float
    bandwidth: float
    arithmetic: str = PRODUCTS
    products: float = 0.0
    copies: dict[int, float] = field(default_factory=dict)

    def seconds(self, gflop: float, gigabytes: float) -> float:
        """Least time for so many operations, 10^9, and so many bytes read or written once, 10^9."""
        return max(gflop / self.gflops, gigabytes / self.bandwidth_of(1e9 * gigabytes))

    def bandwidth_of(self, size: float) -> float:
        """Of operands of so many bytes: what fits into a cache may come from there."""
        # The rate of the next smaller size is not less than that of this one.
        smaller = [rate for known, rate in self.copies.items() if known <= size]
        return max(self.bandwidth, *(smaller[-1:] or list(self.copies.values())[:1]), 0.0)

    def at_least(self, other: "Machine") -> "Machine":
        """The better of two measurements in everything: a peak that was reached once is a peak."""
        better = self if self.gflops >= other.gflops else other
        copies = {size: max(rate, other.copies.get(size, 0.0)) for size, rate in self.copies.items()}
        return Machine(
            better.gflops,
            max(self.bandwidth, other.bandwidth),
            better.arithmetic,
            max(self.products, other.products),
            copies,
        )


def measure_machine(seconds: float = 0.25) -> Machine:
    """Peaks with the threads that PyTorch uses, after a warm-up.

    Args:
        seconds: For each kind of measurement.
    """
    a = torch.randn(256, 256)
    _best(lambda: a @ a, WARM_UP)
    products = max(_product_rate(shape, seconds / len(SHAPES)) for shape in SHAPES)
    registers = register_rate(torch.get_num_threads(), seconds)
    copies = {int(size): _copy_rate(size, seconds / len(COPIES)) for size in COPIES}
    is_product = registers is None or products >= registers
    return Machine(
        products if is_product or registers is None else registers,
        list(copies.values())[-1],
        PRODUCTS if is_product else REGISTERS,
        products,
        copies,
    )


def share_text(share: float) -> str:
    """A share of a peak in per cent; more than all of it is a mistake of the measurement and no result."""
    if share > 1:
        return f"measurement error ({100 * share:.0f} % of a peak that was measured too low)"
    return f"{100 * share:.0f} %"


def register_rate(threads: int, seconds: float) -> float | None:
    """10^9 fused multiply-adds/s, counted as two operations, that need no memory; None without a C++ compiler."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if not compiler or not shutil.which(compiler):
        return None
    source = resources.files(__package__) / "machine_peaks.cpp"
    with tempfile.TemporaryDirectory() as folder, resources.as_file(source) as file:
        library = Path(folder) / "peaks.so"
        # The same instructions that the kernels are compiled to.
        for native in ("-march=native", "-mcpu=native"):
            command = [compiler, *FLAGS, native, str(file), "-o", str(library)]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                function = ctypes.CDLL(str(library)).multiply_add_rate
                function.argtypes, function.restype = [ctypes.c_int, ctypes.c_double], ctypes.c_double
                return float(function(threads, seconds)) / 1e9
    return None


def _product_rate(shape: tuple[int, int, int], seconds: float) -> float:
    rows, inner, columns = shape
    a, b, out = torch.randn(rows, inner), torch.randn(inner, columns), torch.empty(rows, columns)
    return 2 * rows * inner * columns / _best(lambda: torch.mm(a, b, out=out), seconds) / 1e9


def _copy_rate(size: float, seconds: float) -> float:
    x = torch.randn(int(size / 8))
    y = torch.empty_like(x)
    return 8 * x.numel() / _best(lambda: y.copy_(x), seconds) / 1e9


def _best(action: Callable[[], object], seconds: float) -> float:
    """Seconds of the fastest call within a time, of five at least."""
    action()
    best, calls, end = float("inf"), 0, time.perf_counter() + seconds
    while calls < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
        calls += 1
    return best
