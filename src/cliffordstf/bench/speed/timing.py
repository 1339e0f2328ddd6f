"""Timings side by side: machines are noisy, so only ratios taken in one run, one after the other, mean anything."""

import gc
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cliffordstf.allocator import give_back_freed_memory
from cliffordstf.denormals import without_denormals

Action = Callable[[], object]
MOST_CALLS = 20
"""When it is an action's turn."""


@dataclass(frozen=True)
class Timing:
    """Seconds of every repetition of one contender, in the order of the rounds."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median, s."""
        return float(np.median(self.seconds))

    @property
    def quartiles(self) -> tuple[float, float]:
        """First and third quartile, s."""
        low, high = np.percentile(self.seconds, [25, 75])
        return float(low), float(high)


@without_denormals()
def interleaved(
    actions: Mapping[str, Action],
    repetitions: int,
    warm_up: int,
    limit: float,
    minimum: int = 3,
    deadline: float = math.inf,
    turn: float = 0.0,
) -> dict[str, Timing]:
    """Run all actions in turn, again and again.

    Actions that are short against `turn` are called several times when it is their turn. The first of these calls is
    not timed: it finds the caches full of what others left. The median of the others counts as one measurement.

    Args:
        actions: What to time, by name.
        repetitions: Rounds.
        warm_up: Untimed calls of each action before the first round.
        limit: Seconds; an action that has used this much stops taking part.
        minimum: Rounds in which every action takes part, however slow it is.
        deadline: Seconds from now, warm-up included, after which only what was not timed yet is.
        turn: Seconds that an action may take when it is its turn.
    """
    end = time.perf_counter() + deadline
    last: dict[str, float] = {}
    for name, action in actions.items():
        start = time.perf_counter()
        for _ in range(warm_up):
            last[name] = _seconds(action)
            if time.perf_counter() - start > limit / 2:
                break
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for round_number in range(repetitions):
        # Once a round: with many packages loaded a collection takes longer than what is measured.
        gc.collect()
        for name, action in actions.items():
            slow = round_number >= minimum and sum(seconds[name]) > limit
            if slow or (seconds[name] and time.perf_counter() > end):
                continue
            calls = int(turn / max(last[name], turn / MOST_CALLS)) if turn and name in last else 1
            times = [_seconds(action) for _ in range(max(1, calls))]
            last[name] = float(np.median(times[1:] or times))
            seconds[name].append(last[name])
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


def _seconds(action: Action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def ratio(numerator: Timing, denominator: Timing) -> dict[str, float]:
    """Median and quartiles of the ratio, taken round by round."""
    pairs = list(zip(numerator.seconds, denominator.seconds, strict=False))
    values = [a / b for a, b in pairs]
    low, middle, high = np.percentile(values, [25, 50, 75])
    return {"median": float(middle), "low": float(low), "high": float(high), "rounds": len(values)}


class MemoryGrowth:
    """How much this process grows at most from now on."""

    def __init__(self) -> None:
        gc.collect()
        give_back_freed_memory()  # or else it would serve again, and nothing would seem to grow
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is resident now
            self._before: float | None = _status("VmRSS")
        except OSError:
            self._before = None

    @property
    def is_known(self) -> bool:
        """Whether the system says."""
        return self._before is not None

    def peak(self) -> float | None:
        """MB; None where the system does not say, or where all fitted into memory that could not be given back."""
        if self._before is None:
            return None
        grown = (_status("VmHWM") - self._before) / 1024
        return grown if grown >= 1 else None


def peak_memory(action: Action) -> float | None:
    """Megabytes by which the process grew at most during an action.

    None where the system does not say, or where the action fits into memory that could not be given back.
    """
    growth = MemoryGrowth()
    if not growth.is_known:
        return None
    action()
    return growth.peak()


def _status(key: str) -> float:
    """A line of /proc/self/status, kB."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith(key))
    return float(line.split()[1])
