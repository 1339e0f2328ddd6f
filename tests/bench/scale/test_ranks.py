import pytest

from cliffordstf.bench.jobs.sweep import Sweep, read_results
from cliffordstf.bench.scale.ranks import Projection, RanksJob, ranks_tables
from cliffordstf.train.config import load_config

SINGLE = {
    "ms_by_structures": {"1": 3.0, "2": 4.0, "4": 6.0, "8": 10.0},
    "imbalance": {"2": 1.0, "8": 1.1, "1024": 1.2},
}
SEVERAL = {
    "processes": 2,
    "messages": {"8": 0.2, str(10**6 + 8): 1.2},
    "messages_a_step": 4.0,
    "bytes_a_step": 500_000.0,
}


def test_a_projection_gives_back_what_it_was_made_from():
    found = Projection.measured(SINGLE, SEVERAL)
    assert (found.fixed, found.each) == pytest.approx((2.0, 1.0))
    assert found.latency == pytest.approx(0.1)
    assert found.rate == pytest.approx(1e6)
    assert found.sending_ms(1) == 0
    assert found.sending_ms(2) == pytest.approx(4 * 0.2 + 0.5)
    assert found.step_ms(8, 4) == pytest.approx(6.0 * 1.1 + 14 * 4 * 0.1 + 14 / 8 * 0.5)


def test_the_fastest_number_of_devices_is_a_minimum():
    found = Projection.measured(SINGLE, SEVERAL)
    most = found.most_devices(1024)
    times = {devices: found.step_ms(devices, 1024 / devices) for devices in (most // 2, most, 2 * most)}
    assert min(times, key=times.__getitem__) == most


def test_steps_of_one_and_two_processes_are_measured(clusters, tmp_path):
    config = load_config(None, [f"data.train={clusters}", "model.preset=default/small", "batch_size=8", "data.valid=4"])
    sweep = Sweep(tmp_path / "results", tmp_path / "work", raises=True)
    sweep.run([RanksJob(config, count, 3) for count in (1, 2)], lambda _: None)
    single, double = (result["measured"] for result in read_results(sweep.results))
    assert (single["processes"], double["processes"]) == (1, 2)
    assert single["messages_a_step"] == single["bytes_a_step"] == 0
    assert double["messages_a_step"] == 3
    assert double["bytes_a_step"] >= 4 * double["parameters"]
    measured, projected = ranks_tables(read_results(sweep.results))
    assert [row[1] for row in measured.rows] == ["1", "2"]
    assert [row[0] for row in projected.rows][-1] == "1024"
