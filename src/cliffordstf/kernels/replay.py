"""Work that is written down once and done again and again, for any number of atoms and edges.

Around a kernel of a few microseconds, looking up its arguments and making its tensors takes ten times as long. Where
the same operators run in the same order on tensors that stay where they are, all of that is done once: what changes
from batch to batch is how many of the rows count.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from torch import Tensor

from cliffordstf.graph import EdgeCounts

Action = Callable[[], object]


@runtime_checkable
class Sized(Protocol):
    """An action that can be told how many atoms and edges there are."""

    def resize(self, counts: EdgeCounts) -> None:
        """Do as much from now on."""
        ...


class Replay:
    """Actions in the order in which they were written down."""

    def __init__(self) -> None:
        self._actions: list[Action] = []
        self._sized: list[Sized] = []

    def write(self, action: Action) -> None:
        """Add an action, without doing it."""
        self._actions.append(action)
        if isinstance(action, Sized):
            self._sized.append(action)

    def resize(self, counts: EdgeCounts) -> None:
        """Let every action know how many atoms and edges there are."""
        for action in self._sized:
            action.resize(counts)

    def run(self) -> None:
        """Do everything."""
        for action in self._actions:
            action()


class _Writer(threading.local):
    """Where this thread writes down its actions, if anywhere."""

    current: Replay | None = None


_writer = _Writer()


@contextmanager
def written_to(replay: Replay) -> Iterator[None]:
    """Within this block `do` writes down instead of doing; tensors that come out hold nothing yet."""
    previous, _writer.current = _writer.current, replay
    try:
        yield
    finally:
        _writer.current = previous


def do(action: Action) -> None:
    """Do something to tensors in place, or write it down."""
    if _writer.current is None:
        action()
    else:
        _writer.current.write(action)


def add(total: Tensor, result: Tensor) -> Tensor:
    """`total`, with the result added in place."""
    do(lambda: total.add_(result))
    return total


def zeros(like: Tensor, *shape: int) -> Tensor:
    """A tensor of zeros."""
    result = like.new_empty(*shape)
    do(result.zero_)
    return result
