"""Growing periodic boxes, timed in turn."""

from itertools import groupby

import pytest

from cliffordstf.bench.speed import periodic_boxes as boxes


def test_a_row_for_every_size(monkeypatch):
    monkeypatch.setattr(boxes, "ATOMS_A_ROUND", 100)
    said: list[str] = []
    rows = boxes.measure_boxes((32, 100), models=[boxes.OURS], limit=0.5, say=said.append)
    assert [row["atoms"] for row in rows] == [32, 108]
    assert all(row["microseconds_per_atom"] > 0 for row in rows)
    assert len(said) == 2
    # Without a box of a thousand atoms the first one is what the others are compared with.
    assert rows[0]["time_per_atom_over_thousand"]["median"] == 1


def test_only_models_that_take_part_have_boxes(monkeypatch):
    asked: list[boxes.Box] = []
    monkeypatch.setattr(boxes.zoo, "available", lambda _: None)
    monkeypatch.setattr(boxes, "_alone", lambda function, first, *_: asked.append(first) or _rows(function, first))
    both = boxes.measure_boxes((100, 1_000), models=["painn", boxes.PEER, boxes.OURS], limit=1, say=lambda _: None)
    assert [(row["name"], row["atoms"]) for row in both] == [("default", 100), ("default", 1_000), ("mace-l1", 1_000)]
    asked.clear()
    assert boxes.measure_boxes((100, 1_000), models=["painn"], limit=1, say=lambda _: None) == []
    assert not asked


def _rows(function, boxes_or_box):
    if function is boxes.box_memory:
        return 1.0
    return [{"name": name, "atoms": size, "microseconds_per_atom": 1.0} for name, size in boxes_or_box]


def test_small_boxes_are_evaluated_several_times_a_round(monkeypatch):
    monkeypatch.setattr(boxes, "ATOMS_A_ROUND", 100)
    calls: list[int] = []

    class Counting(boxes.Contender):
        def inference(self, batch):
            return lambda: calls.append(len(batch.numbers))

    monkeypatch.setattr(boxes, "Contender", Counting)
    boxes.time_boxes([(boxes.OURS, 32), (boxes.OURS, 100)], limit=10)
    runs = [(atoms, len(list(group))) for atoms, group in groupby(calls)]
    # In turn, not one size after the other (after the first calls, which warm them).
    assert [atoms for atoms, _ in runs[2:]] == [32, 108] * (len(runs) // 2 - 1)
    assert {times for _, times in runs[2::2]} == {3}
    assert {times for _, times in runs[3::2]} == {1}
    assert boxes.ROUNDS <= len(runs) // 2 - 1 <= boxes.ROUNDS + 1


def test_the_thousand_is_the_reference():
    rows = boxes.time_boxes([(boxes.OURS, 100), (boxes.OURS, 1000)], limit=0.01)
    assert rows[1]["time_per_atom_over_thousand"]["median"] == pytest.approx(1)
