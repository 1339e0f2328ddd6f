import numpy as np
import pytest
import torch

from cliffordstf.data import dataset as dataset_module
from cliffordstf.data.dataset import BatchPlan, Dataset, shuffled
from cliffordstf.data.frame import Frame
from cliffordstf.data.structure import Structure
from cliffordstf.errors import StructureError
from cliffordstf.verify.structures import random_cluster


def frames(count: int = 7) -> list[Frame]:
    made = []
    for seed in range(count):
        structure = random_cluster((1, 6, 8), atoms=4 + seed % 3, seed=seed)
        made.append(Frame(structure, energy=float(seed), forces=np.full((len(structure), 3), float(seed))))
    return made


def test_missing_labels_are_nan():
    partly = [*frames(2), Frame(random_cluster((1,), atoms=3))]
    batch = Dataset(partly, 5.0).batch([0, 2])
    assert batch.energy[0] == 0
    assert torch.isnan(batch.energy[1])
    assert torch.isnan(batch.forces[4:]).all()
    assert torch.isnan(batch.stress).all()


def test_batches_cover_every_frame_once_and_keep_budgets():
    data = Dataset(frames(), 5.0)
    for plan in (BatchPlan(3), BatchPlan(100, max_atoms=11), BatchPlan(100, max_edges=60), BatchPlan(1)):
        groups = plan.split(data, shuffled(len(data), 0, 0))
        assert sorted(index for group in groups for index in group) == list(range(len(data)))
        for group in groups:
            assert len(group) <= plan.size
            if plan.max_atoms and len(group) > 1:
                assert data.atoms[group].sum() <= plan.max_atoms
            if plan.max_edges and len(group) > 1:
                assert data.edges[group].sum() <= plan.max_edges


def test_the_order_depends_on_seed_and_epoch_only():
    assert (shuffled(20, 3, 5) == shuffled(20, 3, 5)).all()
    assert (shuffled(20, 3, 5) != shuffled(20, 3, 6)).any()
    assert (shuffled(20, 3, 5) != shuffled(20, 4, 5)).any()


def test_neighbour_lists_are_made_once(monkeypatch, tmp_path):
    calls = []
    original = dataset_module.neighbour_list
    monkeypatch.setattr(dataset_module, "neighbour_list", lambda *a: calls.append(a) or original(*a))
    cache = tmp_path / "lists.npz"
    first = Dataset(frames(), 5.0, cache)
    for _ in range(3):
        list(first.batches(BatchPlan(2)))
    assert len(calls) == len(first)
    second = Dataset(frames(), 5.0, cache)
    assert len(calls) == len(first)
    for a, b in ((first.neighbours(index), second.neighbours(index)) for index in range(len(first))):
        np.testing.assert_array_equal(a.senders, b.senders)
        np.testing.assert_array_equal(a.shifts, b.shifts)
    Dataset(frames(), 4.0, cache)  # another cutoff: the cache does not fit and is made anew
    assert len(calls) == 2 * len(first)


def test_lists_without_room_are_made_when_asked_for(monkeypatch, tmp_path):
    whole = Dataset(frames(), 5.0)
    calls = []
    original = dataset_module.neighbour_list
    monkeypatch.setattr(dataset_module, "neighbour_list", lambda *a: calls.append(a) or original(*a))
    room = int(whole.edges[:3].sum())
    part = Dataset(frames(), 5.0, tmp_path / "lists.npz", room)
    assert part.average_neighbours() == whole.average_neighbours()
    assert not list(tmp_path.iterdir()), "a cache of some of the lists would be taken for all of them"
    del calls[:]
    for a, b in zip(whole.batches(BatchPlan(2)), part.batches(BatchPlan(2)), strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a.batch.edges, b.batch.edges, strict=True))
    assert len(calls) == len(part) - 3


def test_a_damaged_cache_is_made_anew(tmp_path):
    cache = tmp_path / "lists.npz"
    for damage in (b"not a zip file", b"PK\x03\x04 cut short", b""):
        cache.write_bytes(damage)
        data = Dataset(frames(2), 5.0, cache)
        assert [len(data.neighbours(index).senders) for index in range(2)] == data.edges.tolist()


def test_a_cache_may_have_any_name(tmp_path):
    cache = tmp_path / "lists.cache"
    Dataset(frames(2), 5.0, cache)
    assert [path.name for path in tmp_path.iterdir()] == ["lists.cache"]


def test_forces_must_fit_the_atoms():
    with pytest.raises(StructureError, match=r"has 2 atoms but forces of shape \(3, 3\)"):
        Frame(Structure([1, 1], [[0, 0, 0], [0, 0, 1]], name="f"), forces=np.zeros((3, 3)))
