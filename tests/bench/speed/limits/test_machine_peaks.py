import math

import pytest
import torch

from cliffordstf.bench.speed.limits import machine_peaks
from cliffordstf.bench.speed.limits.machine_peaks import REGISTERS, Machine, measure_machine, register_rate, share_text
from cliffordstf.bench.speed.limits.roofline import edge_operator
from cliffordstf.bench.speed.systems import aspirin
from cliffordstf.model.build import build


@pytest.fixture(scope="module")
def machine() -> Machine:
    """This one, measured in short."""
    patched = pytest.MonkeyPatch()
    patched.setattr(machine_peaks, "WARM_UP", 0.2)
    found = measure_machine(0.1)
    patched.undo()
    return found


def test_the_peak_is_the_best_of_all_arithmetic(machine):
    assert machine.gflops >= machine.products > 0
    assert math.isfinite(machine.gflops)
    assert machine.bandwidth == list(machine.copies.values())[-1] > 0


def test_registers_are_not_slower_than_matrix_products(machine):
    rate = register_rate(torch.get_num_threads(), 0.1)
    if rate is None:
        pytest.skip("there is no C++ compiler")
    assert rate > 0.8 * machine.products  # a busy moment may cost something


def test_without_a_compiler_matrix_products_are_the_peak(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(machine_peaks, "WARM_UP", 0.0)
    found = measure_machine(0.01)
    assert found.arithmetic == "matrix products"
    assert found.gflops == found.products


def test_the_edge_operator_does_not_outrun_the_machine(machine):
    potential = build("default", elements=[1, 6, 8], seed=0, channels=16)
    found = edge_operator(potential, potential.batch([aspirin(0)]), machine.at_least(measure_machine(0.1)))
    for values in found.values():
        assert 0 < values["share"] <= 1


def test_operands_that_fit_a_cache_have_its_bandwidth():
    known = Machine(100.0, 10.0, copies={1_000_000: 80.0, 100_000_000: 10.0})
    assert known.bandwidth_of(100) == 80.0
    assert known.bandwidth_of(5e6) == 80.0
    assert known.bandwidth_of(5e9) == 10.0
    assert known.seconds(gflop=1.0, gigabytes=0.008) == pytest.approx(0.01)
    assert known.seconds(gflop=1.0, gigabytes=1.0) == pytest.approx(0.1)
    assert Machine(100.0, 10.0).bandwidth_of(1.0) == 10.0


def test_a_peak_that_was_reached_once_is_a_peak():
    first = Machine(90.0, 12.0, "matrix products", 90.0, {8: 50.0})
    second = Machine(120.0, 10.0, REGISTERS, 80.0, {8: 60.0})
    assert first.at_least(second) == Machine(120.0, 12.0, REGISTERS, 90.0, {8: 60.0})
    assert second.at_least(first) == first.at_least(second)


def test_more_than_the_peak_is_an_error_of_the_measurement():
    assert share_text(0.42) == "42 %"
    assert share_text(1.0) == "100 %"
    assert share_text(1.82) == "measurement error (182 % of a peak that was measured too low)"
