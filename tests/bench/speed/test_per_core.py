import pytest

from cliffordstf.bench.speed import per_core, symmetrix_mace
from cliffordstf.bench.speed.per_core import SYMMETRIX, measure_per_core, time_systems
from cliffordstf.bench.speed.speed_tables import speed_tables


def test_every_model_has_a_row_for_every_system(monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(symmetrix_mace, "unavailable", lambda: "it is not here.")
    sizes = (("copper", 108), ("water", 96))
    rows, missing = measure_per_core(["default/small", SYMMETRIX], sizes, 0.1, said.append)
    assert missing == {SYMMETRIX: "it is not here."}
    assert [(row["name"], row["system"], row["atoms"]) for row in rows] == [
        ("default/small", "copper", 108),
        ("default/small", "water", 288),
    ]
    for row in rows:
        assert row["rounds"] >= 3
        low, high = row["quartiles"]
        assert 0 < low <= row["microseconds_per_atom_and_core"] <= high
    assert said[0].startswith("copper, default/small: ")
    results = {"profile": None, "rows": [], "boxes": [], "ratios": {"spread": {}}, "settings": {}, "system": "",
               "commit": "0", "machine": {"processor": "", "threads": 1, "torch": ""}, "per_core": rows}  # fmt: skip
    (table,) = speed_tables(results)
    assert [row[:3] for row in table.rows] == [
        ["default/small", "copper", "108"],
        ["default/small", "water", "288"],
    ]


def test_two_threads_count_twice(monkeypatch):
    monkeypatch.setattr(per_core.torch, "set_num_threads", lambda _: None)
    monkeypatch.setattr(per_core, "_stopwatch", lambda *_: lambda: 0.1)
    (one,), _ = time_systems(["default/small"], (("copper", 108),), 1.0, 1)
    (two,), _ = time_systems(["default/small"], (("copper", 108),), 1.0, 2)
    assert one["microseconds_per_atom_and_core"] == pytest.approx(1e5 / 108)
    assert two["microseconds_per_atom_and_core"] == pytest.approx(2e5 / 108)


def test_a_native_model_that_cannot_be_made_is_left_out_with_the_reason(monkeypatch):
    def broken(elements, folder):
        raise RuntimeError("no compiler\nand more")

    monkeypatch.setattr(symmetrix_mace, "export", broken)
    rows, failed = time_systems([SYMMETRIX], (("copper", 108),), 1.0, 1)
    assert rows == []
    assert failed == {SYMMETRIX: "RuntimeError: no compiler"}


def test_nothing_is_measured_without_names_or_systems():
    assert measure_per_core([], (("copper", 108),), 1.0, print) == ([], {})
    assert measure_per_core(["default/small"], (), 1.0, print) == ([], {})
