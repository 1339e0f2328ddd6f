"""Numbers too small for a full mantissa, which some processors handle a hundred times more slowly than others."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

DENORMAL = 1e-310
"""In double precision."""


@contextmanager
def without_denormals() -> Iterator[None]:
    """Take denormal numbers for zero within this block, or within a function that it decorates.

    Tails of Gaussian radial functions are full of them: an update of SchNet or PaiNN on molecules of QM9 took three
    times as long with them as without. Threads that exist already keep their own setting, as does a processor that
    cannot.
    """
    before = flushes_denormals()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def flushes_denormals() -> bool:
    """Whether this thread takes denormal numbers for zero."""
    return float(torch.tensor(DENORMAL, dtype=torch.float64) * 0.5) == 0.0
