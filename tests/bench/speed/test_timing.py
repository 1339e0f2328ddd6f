import math

import pytest

from cliffordstf.bench.speed import timing
from cliffordstf.bench.speed.timing import Rounds, Timing, interleaved, measure, ratio


class Clock:
    """Time that passes only where a test says so: a busy machine cannot disturb it."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(timing, "time", found)
    return found


def lasting(clock, *seconds):
    """An action whose calls take these times, and then always the last of them."""
    pauses = list(seconds)

    def action() -> None:
        clock.sleep(pauses.pop(0) if len(pauses) > 1 else pauses[0])

    return action


def test_rounds_are_interleaved_and_slow_contenders_drop_out(clock):
    calls = []
    actions = {"fast": lambda: (calls.append("fast"), clock.sleep(0.01)),
               "slow": lambda: (calls.append("slow"), clock.sleep(0.05))}  # fmt: skip
    found = interleaved(actions, Rounds(6, limit=0.08, warm_calls=2)).timings
    assert calls[:8] == ["fast", "fast", "slow", "slow", "fast", "slow", "fast", "slow"]
    assert len(found["fast"].seconds) == 6
    assert len(found["slow"].seconds) == 3
    assert found["slow"].median == pytest.approx(0.05)


def test_an_action_is_warmed_until_two_successive_calls_agree(clock):
    found = interleaved({"a": lasting(clock, 2.0, 1.0, 0.5, 0.3, 0.29)}, Rounds(3, limit=9.0, warm_calls=2))
    assert found.timings["a"].seconds == pytest.approx((0.29, 0.29, 0.29))


def test_calls_that_agree_by_chance_are_not_warm_yet(clock):
    # The first call loads, the second optimises, and both take as long.
    found = interleaved({"a": lasting(clock, 2.0, 2.0, 0.1)}, Rounds(3, limit=9.0))
    assert found.timings["a"].seconds == pytest.approx((0.1, 0.1, 0.1))


def test_warming_ends_after_its_time(clock):
    action = lasting(clock, *(0.5**number for number in range(60)))
    interleaved({"a": action}, Rounds(3, limit=0.0, warm_up=1.6, turn=0.0))
    # Three calls take 1.75 s. Then come three rounds, and one for the first of them, which was still cold.
    assert clock.now == pytest.approx(sum(0.5**number for number in range(3 + 4)))


def test_a_cold_first_round_is_dropped_and_made_up_for(clock):
    # Warm at once by its two equal calls; the first round finds a machine that is busy with something else.
    found = interleaved({"a": lasting(clock, 0.1, 0.1, 2.0, 0.1)}, Rounds(3, limit=9.0, warm_calls=2)).timings["a"]
    assert found.seconds == pytest.approx((0.1, 0.1, 0.1))
    assert found.first == 1


def test_a_cold_round_of_one_side_is_made_up_for_by_both(clock):
    actions = {"cold": lasting(clock, 0.1, 0.1, 2.0, 0.1), "warm": lasting(clock, 0.2)}
    found = interleaved(actions, Rounds(3, limit=9.0, warm_calls=2)).timings
    assert [len(timing.seconds) for timing in found.values()] == [3, 4]
    assert ratio(found["warm"], found["cold"])["rounds"] == 3


def test_a_first_round_like_the_others_counts(clock):
    found = interleaved({"a": lasting(clock, 0.1, 0.1, 0.14, 0.1)}, Rounds(3, limit=9.0, warm_calls=2)).timings["a"]
    assert found.seconds == pytest.approx((0.14, 0.1, 0.1))


def test_short_actions_are_called_again_when_it_is_their_turn(clock):
    calls = []
    actions = {"short": lambda: (calls.append("s"), clock.sleep(0.0095)),
               "long": lambda: (calls.append("l"), clock.sleep(0.06))}  # fmt: skip
    interleaved(actions, Rounds(3, limit=10, warm_calls=2, turn=0.04))
    assert "".join(calls) == "ss" + "ll" + 3 * ("ssss" + "l")


def test_the_first_call_of_a_turn_does_not_count(clock):
    action = lasting(clock, 0.01, 0.01, *(3 * [0.08, 0.01, 0.01]))
    found = interleaved({"a": action}, Rounds(3, limit=10, warm_calls=2, turn=0.036))
    assert found.timings["a"].seconds == pytest.approx((0.01, 0.01, 0.01))


def test_the_slowest_are_left_out_where_the_time_is_short(clock):
    actions = {name: lasting(clock, seconds) for name, seconds in (("a", 0.1), ("b", 1.0), ("c", 0.2))}
    found = interleaved(actions, Rounds(20, limit=10, warm_calls=2, deadline=4.1))
    assert [len(timing.seconds) for timing in found.timings.values()] == [9, 9]  # until the deadline
    assert found.left_out == {"b": "3 rounds of 1 s did not fit into the 2.5 s that were left of the budget"}


def test_who_cannot_even_be_warmed_is_left_out(clock):
    actions = {name: lasting(clock, 0.5) for name in ("a", "b", "c")}
    found = interleaved(actions, Rounds(9, limit=10, warm_calls=2, deadline=0.9))
    assert found.timings == {}
    assert found.left_out["c"] == "the budget was over before it could be warmed"
    assert found.left_out["a"].startswith("3 rounds of 0.5 s did not fit")


def test_after_the_deadline_the_minimum_is_still_made(clock):
    # It fits when it is warm, and is slower afterwards.
    found = interleaved({"a": lasting(clock, 0.1, 0.1, 1.0)}, Rounds(9, limit=10, warm_calls=2, deadline=0.6))
    assert len(found.timings["a"].seconds) == 3


def test_stopwatches_may_measure_themselves(clock):
    found = measure({"there": lambda: 0.25}, Rounds(4, limit=10)).timings["there"]
    assert found.seconds == (0.25,) * 4


def test_a_ratio_is_taken_round_by_round():
    # The machine is twice as slow in the second round; the ratio does not see it.
    found = ratio(Timing((2.0, 4.0, 2.0)), Timing((1.0, 2.0, 1.0)))
    assert found == {"median": 2.0, "low": 2.0, "high": 2.0, "rounds": 3}


def test_a_ratio_leaves_out_a_round_that_does_not_count_of_one_side():
    found = ratio(Timing((4.0, 2.0), first=1), Timing((9.0, 2.0, 1.0)))
    assert found == {"median": 2.0, "low": 2.0, "high": 2.0, "rounds": 2}


def test_no_deadline_leaves_nobody_out():
    assert Rounds(3, 1.0).deadline == math.inf
