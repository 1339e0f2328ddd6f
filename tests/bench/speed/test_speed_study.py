import math
import mmap
import platform

import pytest
import torch

from cliffordstf.bench.speed import contenders, speed_study, timing
from cliffordstf.bench.speed.contenders import LITERAL, OURS, Contender, literal, ours
from cliffordstf.bench.speed.roofline import Machine, edge_operator, measure_machine
from cliffordstf.bench.speed.speed_tables import speed_tables
from cliffordstf.bench.speed.systems import aspirin, copper_box
from cliffordstf.bench.speed.timing import MemoryGrowth, Timing, interleaved, peak_memory, ratio
from cliffordstf.errors import ConfigError
from cliffordstf.kernels import kernel_name
from cliffordstf.model.build import build


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


def test_rounds_are_interleaved_and_slow_contenders_drop_out(clock):
    calls = []
    actions = {"fast": lambda: calls.append("fast"), "slow": lambda: (calls.append("slow"), clock.sleep(0.05))}
    timings = interleaved(actions, repetitions=6, warm_up=0, limit=0.08, minimum=2)
    assert calls[:4] == ["fast", "slow", "fast", "slow"]
    assert len(timings["fast"].seconds) == 6
    assert len(timings["slow"].seconds) == 2
    assert timings["slow"].median == pytest.approx(0.05)


def test_short_actions_are_called_again_when_it_is_their_turn(clock):
    calls = []
    pauses = iter([0.01, 0.05, 0.012, 0.05, 0.011, 0.013])

    def short() -> None:
        calls.append("short")
        clock.sleep(next(pauses, 0.01))

    actions = {"short": short, "long": lambda: (calls.append("long"), clock.sleep(0.06))}
    timings = interleaved(actions, repetitions=2, warm_up=2, limit=10, turn=0.04)
    assert calls[:4] == ["short", "short", "long", "long"]
    # Its last call took longer than a turn, so it is called once; then three times, as often as 0.012 goes into 0.04.
    assert "".join(name[0] for name in calls[4:]) == "sl" + "sss" + "l"
    assert timings["short"].seconds == pytest.approx((0.012, 0.012))  # the median of the last two
    assert [len(timing.seconds) for timing in timings.values()] == [2, 2]


def test_the_first_call_of_a_turn_does_not_count(clock):
    pauses = iter([0.01, 0.08, 0.01, 0.01])  # once to warm up, then three calls
    timings = interleaved({"a": lambda: clock.sleep(next(pauses))}, repetitions=1, warm_up=1, limit=10, turn=0.036)
    assert timings["a"].median == pytest.approx(0.01)
    assert next(pauses, None) is None


def test_after_the_deadline_only_what_was_not_timed_is(clock):
    calls: list[str] = []
    actions = {name: lambda name=name: (calls.append(name), clock.sleep(0.02)) for name in ("a", "b")}
    timings = interleaved(actions, repetitions=6, warm_up=0, limit=10, minimum=3, deadline=0.01)
    assert calls == ["a", "b"]
    assert [len(timing.seconds) for timing in timings.values()] == [1, 1]


def test_kinds_of_measurement_share_the_time_that_is_left():
    assert speed_study.share_of_time("inference", 350) == pytest.approx(100)
    assert speed_study.share_of_time("training", 250) == pytest.approx(200)
    assert speed_study.share_of_time("latency", 50) == pytest.approx(50)
    assert speed_study.share_of_time("training", math.inf) == math.inf


def test_a_ratio_is_taken_round_by_round():
    # The machine is twice as slow in the second round; the ratio does not see it.
    found = ratio(Timing((2.0, 4.0, 2.0)), Timing((1.0, 2.0, 1.0)))
    assert found == {"median": 2.0, "low": 2.0, "high": 2.0, "rounds": 3}


def test_peak_memory_sees_what_an_action_holds():
    def hold() -> None:
        # Straight from the system: an allocation might get memory that another test has freed.
        fresh = mmap.mmap(-1, 80_000_000)
        torch.frombuffer(fresh, dtype=torch.float32).fill_(1)

    found = peak_memory(hold)
    if found is None:
        pytest.skip("this system does not report the peak memory of a process")
    assert 60 < found < 120  # 80 MB


def test_memory_that_was_freed_does_not_hide_what_an_action_holds():
    # Many blocks, so that they come from the heap, which keeps them, and not straight from the system.
    def hold() -> None:
        blocks = [torch.ones(50_000) for _ in range(400)]
        assert len(blocks) == 400

    if platform.libc_ver()[0] != "glibc" or not MemoryGrowth().is_known:
        pytest.skip("this system does not report the peak memory of a process, or keeps what is freed")
    hold()
    found = peak_memory(hold)
    assert found is not None
    assert 60 < found < 120  # 80 MB


def test_systems():
    assert len(aspirin(0)) == 21
    box = copper_box(1000)
    assert 800 < len(box) < 1200
    assert box.pbc.all()


def test_our_contenders_have_about_a_million_parameters():
    for contender in ours():
        low = 0.7e6 if contender.name == "paper/clifford" else 0.95e6
        assert low < contender.parameters < 1.06e6, contender.name
    assert {contender.name for contender in ours()} == set(OURS)


def test_the_literal_contender_is_the_same_function():
    reference = literal()
    assert reference is not None
    assert reference.name == LITERAL
    (mine,) = ours(["paper/full"])
    batch = mine.potential.batch([aspirin(0)])
    a, b = mine.potential(batch), reference.potential(batch)
    torch.testing.assert_close(a.forces, b.forces, rtol=1e-3, atol=1e-3)


def test_the_roofline_counts_and_times_the_edge_operator():
    # A machine faster than any: how busy this one is while its peaks are measured does not matter then.
    machine = Machine(gflops=1e6, bandwidth=1e5)
    potential = build("default", elements=[1, 6, 8], seed=0, channels=16)
    found = edge_operator(potential, potential.batch([aspirin(0)]), machine)
    for values in found.values():
        assert values["gflop"] > 0
        assert values["roofline"] == pytest.approx(max(values["gflop"] / 1e6, values["gigabytes"] / 1e5), abs=1e-6)
        assert 0 < values["share"] < 1
        assert values["share"] == pytest.approx(values["roofline"] / values["seconds"], abs=0.05)


def test_this_machine_is_not_outrun():
    """Peaks are the larger of two measurements: a busy moment would make the operator look too fast."""
    before = measure_machine()
    potential = build("default", elements=[1, 6, 8], seed=0, channels=16)
    found = edge_operator(potential, potential.batch([aspirin(0)]), before)
    after = measure_machine()
    slower = min(1.0, before.gflops / after.gflops, before.bandwidth / after.bandwidth)
    for values in found.values():
        assert 0 < values["share"] * slower < 2


def test_the_whole_benchmark_in_small(monkeypatch):
    small = [
        Contender(name, build(p, elements=[1, 6, 8], channels=8, seed=0, **_cut(o))) for name, (p, o) in OURS.items()
    ]
    monkeypatch.setattr(speed_study, "ours", lambda: small)
    monkeypatch.setattr(speed_study, "literal", lambda: Contender(LITERAL, small[-2].potential))
    monkeypatch.setattr(speed_study, "MOLECULES", 1)
    said = []
    results = speed_study.run_speed(speed_study.SpeedSettings(3, 1.0, 2, (100,), with_peers=False), said.append)
    assert {row["name"] for row in results["rows"]} == {*OURS, LITERAL}
    assert results["ratios"]["paper_full_inference_speedup_over_literal"] > 0
    assert results["ratios"]["paper_full_training_speedup_over_literal"] > 0
    assert results["boxes"][0]["microseconds_per_atom"] > 0
    assert results["seconds"] > 0
    fewest, most = results["rounds"]["done"]["training"]
    assert 2 <= fewest <= most <= 3  # on a busy machine slow contenders drop out after the second round
    assert said
    assert [table.title.partition(":")[0].partition(",")[0] for table in speed_tables(results)][1:] == [
        "Ratios of times", "Periodic box", "Roofline", "Profile of default lmax 3"
    ]  # fmt: skip
    assert "; no budget, rounds: inference " in speed_tables(results)[0].title


@pytest.fixture
def tiny(monkeypatch):
    """One molecule, models for few elements, no MACE, and peaks of the machine that need not be measured."""
    monkeypatch.setattr(speed_study, "measure_machine", lambda: Machine(gflops=1e6, bandwidth=1e5))
    monkeypatch.setattr(speed_study, "MOLECULES", 1)
    monkeypatch.setattr(contenders, "ELEMENTS", (1, 6, 8))
    monkeypatch.setattr(contenders, "available", lambda name: f"no {name} here." if name.startswith("mace") else None)


def run(*models: str, budget: float | None = None) -> tuple[dict, list[str]]:
    said: list[str] = []
    settings = speed_study.SpeedSettings(3, 1.0, 2, (1_000,), turn=0.0, models=models, budget=budget)
    return speed_study.run_speed(settings, said.append), said


def test_only_chosen_models_are_timed_and_compared(tiny):
    results, said = run("default/small", "mace-l1", "paper/clifford-md17", "ictp-l2", "default/small")
    names = ["default/small", "paper/clifford-md17", "ictp-l2"]
    assert [row["name"] for row in results["rows"]] == names
    assert results["peers_not_installed"] == {"mace-l1": "no mace-l1 here."}
    assert "3 contenders; not installed: mace-l1" in said
    pairs = [(names[0], names[1]), (names[0], names[2]), (names[1], names[2])]
    kinds = ("inference", "training", "latency")
    assert set(results["ratios"]["spread"]) == {speed_study.ratio_name(a, kind, b) for a, b in pairs for kind in kinds}
    assert results["boxes"] == []
    tables = speed_tables(results)
    assert [row[0] for row in tables[1].rows] == [f"{a} / {b}" for a, b in pairs]
    assert tables[2].title.endswith("edge operator of default/small")
    assert tables[3].title.startswith("Profile of default/small")


def test_without_a_default_model_there_is_no_roofline(tiny):
    results, _ = run("ictp-l1")
    assert results["profile"] is None
    assert len(speed_tables(results)) == 1  # nor anything to compare with


def test_names_are_checked_before_anything_is_measured(monkeypatch):
    monkeypatch.setattr(speed_study, "measure_machine", lambda: pytest.fail("measured"))
    with pytest.raises(ConfigError, match=r"there is no preset 'painnn' \(did you mean 'painn'\?\)"):
        run("default", "painnn")


def test_nothing_to_time_says_what_to_install(tiny):
    with pytest.raises(ConfigError, match=r"no mace-l2 here\."):
        run("mace-l2", "mace-l3")


def test_a_budget_that_is_too_short_still_gives_one_round(tiny):
    results, said = run("default/small", budget=1e-6)
    assert results["rounds"]["done"] == {"inference": [1, 1], "training": [1, 1], "latency": [1, 1]}
    assert results["rounds"]["budget_s"] == 1e-6
    assert any("the budget of 1e-06 s was over before" in text for text in said)
    assert results["rows"][0]["training_rounds"] == 1
    assert "; budget 1e-06 s, rounds: inference 1, training 1, latency 1" in speed_tables(results)[0].title


@pytest.mark.parametrize(
    ("budget", "seconds", "last", "is_too_short"),
    [(None, 9.0, 1, False), (10.0, 9.0, 1, False), (10.0, 10.5, 2, False), (10.0, 12.0, 1, True)],
)
def test_a_budget_is_too_short_if_it_ends_before_the_last_first_round(budget, seconds, last, is_too_short):
    timings = {
        "inference": {"a": Timing((1.0,)), "b": Timing((1.0, 1.0))},
        "training": {"a": Timing((1.0,)), "b": Timing((1.0,))},
        "latency": {"a": Timing((1.0,) * last), "b": Timing((1.0,) * 3)},
    }
    found = speed_study.describe_rounds(timings, budget, seconds)
    assert found["is_budget_too_short"] == is_too_short
    assert found["done"] == {"inference": [1, 2], "training": [1, 1], "latency": [last, 3]}


def test_a_quick_run_has_a_budget():
    assert speed_study.SpeedSettings.quick().budget == speed_study.QUICK
    assert speed_study.SpeedSettings().budget is None


def _cut(options: dict) -> dict:
    return {key: value for key, value in options.items() if key != "channels"}


def test_a_plain_contender_runs_without_the_kernels():
    seen = []

    class Watched(torch.nn.Module):
        def forward(self, batch):
            seen.append(kernel_name())

    Contender("plain", Watched(), is_plain=True).inference(None)()
    Contender("as it is", Watched()).inference(None)()
    assert seen == ["reference", kernel_name()]
