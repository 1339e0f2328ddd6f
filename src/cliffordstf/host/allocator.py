"""Keeping freed memory in the process, for programs that ask for blocks of the same sizes again and again.

By default glibc gives large blocks back to the system, which hands them out again page by page, each page zeroed: about
a tenth of a training step.
"""

import ctypes
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
BLOCK = 1 << 30
"""Blocks below this size (bytes) come from the heap instead of the system."""
EVERYTHING = -1
"""Free memory at the heap's end that the process keeps. The gigabytes of a large system would otherwise be requested,
and zeroed, at every evaluation, which takes several per cent of its time."""
GLIBC_DEFAULT = 128 * 1024
"""Both thresholds of glibc in a process that has changed neither, bytes."""

_lock = threading.Lock()
_holders = 0
"""How many callers want freed memory to be kept; only the last of them may restore the defaults."""


def keep_freed_memory() -> bool:
    """Make glibc keep freed memory until the process ends; true if it does.

    For programs that own their process. Other systems are left alone, and so is a process whose user has set glibc's
    own variables (MALLOC_TRIM_THRESHOLD_ and the like).
    """
    global _holders  # noqa: PLW0603 - the thresholds belong to the process, too
    with _lock:
        if not _set_thresholds(BLOCK, EVERYTHING):
            return False
        _holders += 1
    return True


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep freed memory within this block, or within a function that it decorates; then give it back.

    glibc's default thresholds are restored after the outermost block. They cannot be read, so thresholds that another
    library had set before are lost, as is glibc's habit of raising its own with the largest block that was freed.
    """
    global _holders  # noqa: PLW0603
    is_kept = keep_freed_memory()
    try:
        yield
    finally:
        if is_kept:
            with _lock:
                _holders -= 1
                if _holders == 0:
                    _set_thresholds(GLIBC_DEFAULT, GLIBC_DEFAULT)
                    give_back_freed_memory()


def _set_thresholds(mmap: int, trim: int) -> bool:
    if platform.libc_ver()[0] != "glibc" or any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_MMAP_THRESHOLD, mmap) and mallopt(_TRIM_THRESHOLD, trim))


def free_memory() -> float:
    """Available memory of the machine, bytes; infinite where the system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return inf
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return inf if found is None else 1024.0 * float(found)


def give_back_freed_memory() -> bool:
    """Return freed memory to the system, so that growth shows what is used from now on; true if glibc did."""
    return platform.libc_ver()[0] == "glibc" and bool(ctypes.CDLL(None).malloc_trim(0))
