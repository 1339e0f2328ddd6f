import math
import time

import pytest
import torch

from cliffordstf.bench.speed import contenders, speed_study
from cliffordstf.bench.speed.contenders import LITERAL, OURS, Contender, literal, ours, peers
from cliffordstf.bench.speed.limits.machine_peaks import Machine
from cliffordstf.bench.speed.limits.roofline import edge_operator
from cliffordstf.bench.speed.speed_study import describe_rounds, ratio_name
from cliffordstf.bench.speed.speed_tables import speed_tables
from cliffordstf.bench.speed.systems import aspirin
from cliffordstf.bench.speed.timing import Measured, Timing
from cliffordstf.bench.tables.paper_layout import wall_clock_layout
from cliffordstf.cli.benchmarks import bench
from cliffordstf.errors import ConfigError
from cliffordstf.model.build import build


def test_kinds_of_measurement_share_the_time_that_is_left():
    assert speed_study.share_of_time("inference", 350) == pytest.approx(100)
    assert speed_study.share_of_time("training", 250) == pytest.approx(200)
    assert speed_study.share_of_time("latency", 50) == pytest.approx(50)
    assert speed_study.share_of_time("training", math.inf) == math.inf


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


def test_the_whole_benchmark_in_small(monkeypatch):
    small = [
        Contender(name, build(p, elements=[1, 6, 8], channels=8, seed=0, **_cut(o))) for name, (p, o) in OURS.items()
    ]
    monkeypatch.setattr(speed_study, "ours", lambda: small)
    monkeypatch.setattr(speed_study, "literal", lambda: Contender(LITERAL, small[-2].potential))
    monkeypatch.setattr(speed_study, "MOLECULES", 1)
    said = []
    results = speed_study.run_speed(
        speed_study.SpeedSettings(3, 1.0, warm_up=0.5, boxes=(100,), with_peers=False, turn=0.05, per_core=()),
        said.append,
    )
    assert {row["name"] for row in results["rows"]} == {*OURS, LITERAL}
    assert results["ratios"]["paper_full_inference_speedup_over_literal"] > 0
    assert results["ratios"]["paper_full_training_speedup_over_literal"] > 0
    assert results["boxes"][0]["microseconds_per_atom"] > 0
    assert results["seconds"] > 0
    fewest, most = results["rounds"]["done"]["training"]
    assert 3 <= fewest <= most <= 4  # a cold first round is made up for
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
    settings = speed_study.SpeedSettings(
        3, 1.0, warm_up=0.5, boxes=(1_000,), turn=0.0, per_core=(), models=models, budget=budget
    )
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


def test_a_budget_that_is_too_short_is_an_error_and_no_cold_number(tiny):
    with pytest.raises(ConfigError, match=r"--budget: 1e-06 s are too short to time inference of any"):
        run("default/small", budget=1e-6)


def test_a_contender_that_does_not_fit_the_budget_is_left_out_by_name(tiny, monkeypatch):
    monkeypatch.setattr(speed_study, "literal", lambda: None)
    real = Contender.training

    def training(self, batch):
        step = real(self, batch)
        return step if self.name == "default/small" else lambda: (time.sleep(0.7), step())

    monkeypatch.setattr(Contender, "training", training)
    monkeypatch.setattr(speed_study, "share_of_time", lambda kind, left: 2.5 if kind == "training" else left)
    results, said = run("default/small", "ictp-l1", budget=60.0)
    slow = next(row for row in results["rows"] if row["name"] == "ictp-l1")
    assert (slow["training_ms"], slow["training_rounds"], slow["training_peak_mb"]) == (None, 0, None)
    assert slow["inference_ms"] > 0
    assert set(results["rounds"]["left_out"]) == {"training"}
    assert any(text.startswith("  ictp-l1 is left out of training: 3 rounds of 0.7") for text in said)
    names = {ratio_name("default/small", kind, "ictp-l1") for kind in ("inference", "latency")}
    assert set(results["ratios"]["spread"]) == names
    assert [row[3] for row in speed_tables(results)[0].rows][1] == ""
    rates = {row[0]: row[2] for row in wall_clock_layout(results, 1).rows}
    assert (rates["ictp-l1"], rates["default/small"] != "") == ("", True)
    assert bench.speed_table(results).row_count == 2


def test_the_rounds_that_were_made_are_counted():
    measured = {
        "inference": Measured({"a": Timing((1.0,) * 3), "b": Timing((1.0,) * 4)}),
        "training": Measured({"a": Timing((1.0,) * 3)}, {"b": "too slow"}),
        "latency": Measured({"a": Timing((1.0,) * 7), "b": Timing((1.0,) * 3)}),
    }
    found = describe_rounds(measured, 10.0, 9.0)
    assert found["done"] == {"inference": [3, 4], "training": [3, 3], "latency": [3, 7]}
    assert found["left_out"] == {"training": {"b": "too slow"}}
    assert found["is_budget_too_short"]
    assert not describe_rounds({"latency": measured["latency"]}, None, 9.0)["is_budget_too_short"]


def test_a_quick_run_has_a_budget():
    assert speed_study.SpeedSettings.quick().budget == speed_study.QUICK
    assert speed_study.SpeedSettings().budget is None


def _cut(options: dict) -> dict:
    return {key: value for key, value in options.items() if key != "channels"}


def test_a_plain_contender_runs_without_the_kernels(monkeypatch):
    monkeypatch.setattr(contenders, "PEERS", ("mace-like",))
    monkeypatch.setattr(contenders, "ON_OUR_KERNELS", ("mace-like",))
    monkeypatch.setattr(contenders.zoo, "available", lambda name: None)
    monkeypatch.setattr(contenders, "_peer", lambda name: build("default", elements=[1], channels=4))
    (own, plain), missing = peers()
    assert not missing
    assert plain.name == "mace-like-plain-pytorch"
    assert (own.potential.engine.name, plain.potential.engine.name) == ("native", "reference")
    assert plain.potential.model.layers[0].convolution.plan.plain
    assert not own.potential.model.layers[0].convolution.plan.plain
