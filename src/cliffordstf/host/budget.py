"""Limits on what a file may cost: a few bytes can announce terabytes, unpack to gigabytes or nest without end."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from cliffordstf.errors import LimitError

GIGABYTE = 10**9


@dataclass(frozen=True)
class Budget:
    """What reading one file may cost.

    Attributes:
        gigabytes: Memory that its content may take when it is unpacked.
        atoms: Atoms in all its structures.
        seconds: Time to read it.
        depth: Levels of nesting.
        options: How errors name the options that raise these limits.
    """

    gigabytes: float = 64.0
    atoms: int = 1_000_000_000
    seconds: float = 24 * 3600.0
    depth: int = 200
    options: str = "data.limits"

    def unpacked(self, size: float, what: str) -> None:
        """Check a number of bytes that something takes, or says that it will take, in memory.

        Raises:
            LimitError: It is too much.
        """
        if not size <= self.gigabytes * GIGABYTE:
            raise LimitError(
                f"{what} takes {size / GIGABYTE:.3g} GB or more when it is unpacked, above the limit of "
                f"{self.gigabytes:g} GB; raise {self.options}.gigabytes if it is meant to."
            )

    def announced(self, count: float, available: float, what: str) -> None:
        """Check a number of things against how many there can be.

        Raises:
            LimitError: The file states more than it can hold.
        """
        if not 0 <= count <= available:
            raise LimitError(f"{what} is {count:.12g}, but there is room for {available:.12g}; the file is damaged.")

    def counted(self, atoms: int, what: str) -> None:
        """Check a number of atoms.

        Raises:
            LimitError: There are too many.
        """
        if atoms > self.atoms:
            raise LimitError(
                f"{what} holds {atoms} atoms, above the limit of {self.atoms}; raise {self.options}.atoms if it is "
                "meant to."
            )

    def nested(self, levels: int, what: str) -> None:
        """Check a number of levels.

        Raises:
            LimitError: There are too many.
        """
        if levels > self.depth:
            raise LimitError(
                f"{what} is nested more than {self.depth} levels deep; raise {self.options}.depth if it is meant to."
            )

    def clock(self, what: str) -> Callable[[], None]:
        """Start the time; what is returned raises a LimitError when it is up."""
        end = time.monotonic() + self.seconds

        def check() -> None:
            if time.monotonic() > end:
                raise LimitError(
                    f"{what} took longer to read than the limit of {self.seconds:g} s; raise {self.options}.seconds "
                    "if it is meant to."
                )

        return check


USUAL_BUDGET = Budget()
"""Limits that no file meets by accident."""


def size_of(shape: tuple[int, ...], itemsize: int) -> float:
    """Bytes of an array, as a float: shapes of damaged files overflow whole numbers of 64 bits."""
    return float(math.prod(int(length) for length in shape)) * itemsize
