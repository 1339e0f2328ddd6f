"""Damaged files that are read in parts, and damaged shards: refused or harmless, as files that are read whole."""

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cliffordstf.data.load import load_frames
from cliffordstf.data.options import ReadOptions
from cliffordstf.data.shards.layout import INDEX, write_index
from cliffordstf.data.shards.pieces import read_pieces, split
from cliffordstf.data.shards.writing import write_shard
from tests.attack.mutations import mutated
from tests.attack.targets import FRAMES, LIMITS, TARGETS, Target, outcome

CUT = ("extended XYZ", "extended XYZ, xz", "ASE .traj", "ASE .db", "ASE-LMDB", "OC20 LMDB", "HDF5")
"""Formats that are read from any structure on."""


def in_parts(path):
    options = ReadOptions(limits=LIMITS)
    found = [read_pieces(shard, options) for shard in split([path], 5, options)]
    warnings = [warning for loaded in found for warning in loaded.warnings if not warning.startswith("no ")]
    return None if warnings else sum(len(loaded.frames) for loaded in found)


def _shards(folder):
    frames = load_frames(TARGETS[0].make(folder)).frames
    path = folder / "set.shards"
    write_index(path, [write_shard(path / f"{i}", frames[i : i + 5]) for i in range(0, FRAMES, 5)])
    return path


SHARDS = [
    Target(f"shards, {name}", lambda folder, name=name: _shards(folder) / name, open_shards, FRAMES)
    for name, open_shards in (
        (INDEX, lambda path: in_parts(path.parent)),
        ("0/structure_atoms.npy", lambda path: in_parts(path.parents[1])),
        ("5/atom_positions.npy", lambda path: in_parts(path.parents[1])),
    )
]
PARTS = [replace(target, open=in_parts) for target in TARGETS if target.name in CUT] + SHARDS


@pytest.fixture(params=PARTS, ids=[target.name for target in PARTS])
def genuine(request, tmp_path):
    path = request.param.make(tmp_path)
    return request.param, path, path.read_bytes()


def test_genuine_files_open_without_a_word(genuine):
    target, path, _ = genuine
    assert target.open(path) == FRAMES


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(seed=st.integers(0, 2**32))
def test_damage_is_refused_or_harmless(genuine, seed):
    target, path, content = genuine
    path.write_bytes(mutated(content, random.Random(seed)))
    assert outcome(target, path) != "traceback"


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(share=st.floats(0, 0.99))
def test_cut_off_files(genuine, share):
    target, path, content = genuine
    path.write_bytes(content[: int(share * len(content))])
    assert outcome(target, path) != "traceback"
