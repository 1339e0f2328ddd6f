"""Peak memory of an action: by how much this process grows."""

import gc
from collections.abc import Callable
from pathlib import Path

from cliffordstf.host.allocator import give_back_freed_memory
from cliffordstf.host.memory import resident_memory_mb


class MemoryGrowth:
    """How much this process grows at most from now on."""

    def __init__(self) -> None:
        gc.collect()
        give_back_freed_memory()  # or else it would serve again, and nothing would seem to grow
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is resident now
            self._before: float | None = resident_memory_mb()
        except OSError:
            self._before = None

    @property
    def is_known(self) -> bool:
        """Whether the system reports it."""
        return self._before is not None

    def peak(self) -> float | None:
        """MB; None where the system does not report it, or all fitted into memory that could not be given back."""
        if self._before is None:
            return None
        grown = resident_memory_mb(is_peak=True) - self._before
        return grown if grown >= 1 else None


def peak_memory(action: Callable[[], object]) -> float | None:
    """Megabytes by which the process grew at most during an action.

    None where the system does not report it, or where the action fits into memory that could not be given back.
    """
    growth = MemoryGrowth()
    if not growth.is_known:
        return None
    action()
    return growth.peak()
