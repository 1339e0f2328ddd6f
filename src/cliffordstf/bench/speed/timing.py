"""Timings side by side: machines are noisy, so only ratios taken in one run, one after the other, mean anything."""

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cliffordstf.host.denormals import without_denormals

Action = Callable[[], object]
Stopwatch = Callable[[], float]
"""Runs something once and returns the seconds it took."""
MOST_CALLS = 20
"""When it is an action's turn."""
AGREE = 1.2
"""Two successive calls agree if the longer one took at most so many times as long: the action is warm then."""
COLD = 1.5
"""A first round that took more than so many times the median of the others is not counted."""


@dataclass(frozen=True)
class Rounds:
    """How long to measure.

    Attributes:
        repetitions: Rounds of every action.
        limit: Seconds; an action that has used this much stops taking part after the minimum.
        minimum: Rounds that count of every action that takes part at all.
        warm_calls: Untimed calls of each action before the first round, at least.
        warm_up: Seconds after which an action is called warm even if its last two calls do not agree.
        deadline: Seconds for everything, warm-up included. Actions whose minimum does not fit are left out.
        turn: Seconds for which an action is called again when it is its turn.
    """

    repetitions: int
    limit: float
    minimum: int = 3
    warm_calls: int = 4
    warm_up: float = 10.0
    deadline: float = math.inf
    turn: float = 0.0


@dataclass(frozen=True)
class Timing:
    """Seconds of every counted round of one contender, in their order.

    Attributes:
        seconds: One number a round.
        first: Number of the round that the first of them belongs to; 1 if the first round was not counted.
    """

    seconds: tuple[float, ...]
    first: int = 0

    @property
    def median(self) -> float:
        """Median, s."""
        return float(np.median(self.seconds))

    @property
    def quartiles(self) -> tuple[float, float]:
        """First and third quartile, s."""
        low, high = np.percentile(self.seconds, [25, 75])
        return float(low), float(high)


@dataclass(frozen=True)
class Measured:
    """What was measured.

    Attributes:
        timings: By the names of the actions that took part.
        left_out: Why the others did not, by name.
    """

    timings: dict[str, Timing]
    left_out: dict[str, str] = field(default_factory=dict)


def interleaved(actions: Mapping[str, Action], rounds: Rounds) -> Measured:
    """Time actions of this process in turn, again and again; see `measure`."""
    with without_denormals():
        return measure({name: _stopwatch(action) for name, action in actions.items()}, rounds)


def measure(stopwatches: Mapping[str, Stopwatch], rounds: Rounds) -> Measured:
    """Run all stopwatches in turn, again and again, until every one has enough rounds.

    Every action is warmed first, until two successive calls agree or its time for this is over. Actions that are short
    against `rounds.turn` are called several times when it is their turn. The first of these calls is not counted: it
    finds the caches full of what others left. The median of the others counts as one round.

    Args:
        stopwatches: What to time, by name.
        rounds: How long. If the deadline is too near for the minimum of all, the slowest actions are left out.
    """
    end = time.perf_counter() + rounds.deadline
    last, left_out = _warmed(stopwatches, rounds, end)
    left_out |= _without_time(last, rounds, end - time.perf_counter())
    seconds: dict[str, list[float]] = {name: [] for name in last}
    while True:
        now = time.perf_counter()
        # Ratios need the minimum of rounds that count of both sides: a cold one is made up for by everybody.
        first = max((_counted(values).first for values in seconds.values()), default=0)
        taking_part = [name for name in seconds if _goes_on(seconds[name], first, rounds, now > end)]
        if not taking_part:
            return Measured({name: _counted(values) for name, values in seconds.items()}, left_out)
        # Once a round: with many packages loaded a collection takes longer than what is measured.
        gc.collect()
        for name in taking_part:
            times = [stopwatches[name]() for _ in range(_calls(last[name], rounds.turn))]
            last[name] = float(np.median(times[1:] or times))
            seconds[name].append(last[name])


def _stopwatch(action: Action) -> Stopwatch:
    def run() -> float:
        start = time.perf_counter()
        action()
        return time.perf_counter() - start

    return run


def _warmed(
    stopwatches: Mapping[str, Stopwatch], rounds: Rounds, end: float
) -> tuple[dict[str, float], dict[str, str]]:
    """Seconds of the last call of every action that could be warmed, and why the others could not."""
    last: dict[str, float] = {}
    left_out: dict[str, str] = {}
    for number, (name, stopwatch) in enumerate(stopwatches.items()):
        left = end - time.perf_counter()
        if left <= 0:
            left_out[name] = "the budget was over before it could be warmed"
            continue
        # Half of the time is for the rounds, and no action warms itself at the cost of those after it.
        fair = left / (2 * (len(stopwatches) - number))
        last[name] = _warm(stopwatch, rounds.warm_calls, min(rounds.warm_up, fair))
    return last, left_out


def _warm(stopwatch: Stopwatch, calls: int, limit: float) -> float:
    """Call it until two successive calls agree, at least so often, but no longer than the limit; the last seconds."""
    end = time.perf_counter() + limit
    times = [stopwatch()]
    while time.perf_counter() < end and not (len(times) >= max(2, calls) and _agree(times[-2], times[-1])):
        times.append(stopwatch())
    return times[-1]


def _agree(first: float, second: float) -> bool:
    return max(first, second) <= AGREE * min(first, second)


def _without_time(last: dict[str, float], rounds: Rounds, left: float) -> dict[str, str]:
    """Take the slowest actions out of `last` until the minimum of all others fits; why each of them went."""
    left_out = {}
    needed = {name: rounds.minimum * max(seconds, rounds.turn) for name, seconds in last.items()}
    while needed and sum(needed.values()) > left:
        slowest = max(needed, key=lambda name: needed[name])
        left_out[slowest] = (
            f"{rounds.minimum} rounds of {last[slowest]:.3g} s did not fit into the {max(left, 0.0):.3g} s that were "
            "left of the budget"
        )
        del needed[slowest], last[slowest]
    return left_out


def _goes_on(seconds: Sequence[float], first: int, rounds: Rounds, is_over: bool) -> bool:
    if len(seconds) - first < rounds.minimum:
        return True
    return len(seconds) < rounds.repetitions and sum(seconds) <= rounds.limit and not is_over


def _counted(seconds: Sequence[float]) -> Timing:
    """All rounds, without the first if it was cold."""
    is_cold = len(seconds) > 1 and seconds[0] > COLD * float(np.median(seconds[1:]))
    return Timing(tuple(seconds[is_cold:]), int(is_cold))


def _calls(seconds: float, turn: float) -> int:
    """How often an action that takes so long is called when it is its turn."""
    return max(1, int(turn / max(seconds, turn / MOST_CALLS))) if turn else 1


def ratio(numerator: Timing, denominator: Timing) -> dict[str, float]:
    """Median and quartiles of the ratio, taken round by round, over the rounds that count of both."""
    first = max(numerator.first, denominator.first)
    above, below = (timing.seconds[first - timing.first :] for timing in (numerator, denominator))
    values = [a / b for a, b in zip(above, below, strict=False)]
    low, middle, high = np.percentile(values, [25, 50, 75])
    return {"median": float(middle), "low": float(low), "high": float(high), "rounds": len(values)}
