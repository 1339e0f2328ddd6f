"""Work that is done and can be done again on the same memory."""

from collections.abc import Callable
from typing import TypeVar

Action = Callable[[], object]
Result = TypeVar("Result")


class Tape:
    """Runs what it is given, in order; if it records, it can run all of it again.

    Then nothing is allocated, and no argument is looked up.

    Args:
        is_recording: Whether to remember the actions, and with them the memory that they use.
    """

    def __init__(self, is_recording: bool) -> None:
        self._actions: list[Action] | None = [] if is_recording else None

    def do(self, action: Action) -> None:
        """Run an action that reads and writes tensors in place."""
        action()
        if self._actions is not None:
            self._actions.append(action)

    def fill(self, prepared: tuple[Action, Result]) -> Result:
        """Run an action that fills tensors made for it, and hand these over."""
        action, result = prepared
        self.do(action)
        return result

    def again(self) -> None:
        """Run everything again, on the values that the first operands have now."""
        assert self._actions is not None
        for action in self._actions:
            action()
