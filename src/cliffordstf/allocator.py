"""Memory that is freed stays with the process: a step asks for the same sizes again and again.

By default glibc gives large blocks back to the system, which hands them out again page by page, each page zeroed: about
a tenth of a training step.
"""

import ctypes
import os
import platform
from math import inf
from pathlib import Path

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
BLOCK = 1 << 30
"""Blocks below this size (bytes) come from the heap instead of the system."""
EVERYTHING = -1
"""Free memory at the heap's end that the process keeps. The gigabytes of a large system would otherwise be asked for,
and zeroed, at every evaluation, which takes several per cent of its time."""


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed memory; true if it listens.

    Other systems are left alone, and so is a process whose user has set glibc's own variables (MALLOC_TRIM_THRESHOLD_
    and the like).
    """
    if platform.libc_ver()[0] != "glibc" or any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_MMAP_THRESHOLD, BLOCK) and mallopt(_TRIM_THRESHOLD, EVERYTHING))


def free_memory() -> float:
    """Bytes that the system says are to be had; infinite where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return inf
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return inf if found is None else 1024.0 * float(found)


def give_back_freed_memory() -> bool:
    """Hand freed memory to the system after all, so that growth shows what is used from now on; true if glibc did."""
    return platform.libc_ver()[0] == "glibc" and bool(ctypes.CDLL(None).malloc_trim(0))
