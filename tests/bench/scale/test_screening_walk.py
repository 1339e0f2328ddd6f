import importlib.util
from pathlib import Path

import pytest

from cliffordstf import datasets
from cliffordstf.bench.jobs.sweep import Sweep, read_results
from cliffordstf.bench.scale.screening_walk import ScreeningJob, screening_table

HAS_RAY = importlib.util.find_spec("ray") is not None


def walk(tmp_path: Path, where, structures: int) -> dict:
    job = ScreeningJob(where, "ethanol-gfn2", datasets.path("ethanol_gfn2"), structures, 10)
    sweep = Sweep(tmp_path / "results", tmp_path / "work", raises=True)
    sweep.run([job], lambda _: None)
    (result,) = [found for found in read_results(sweep.results) if found["where"] == where]
    return result


def test_a_walk_counts_what_comes_out(tmp_path):
    result = walk(tmp_path, "one process", 45)
    assert (result["found"], result["shards"], result["killed"]) == (45, 5, 0)
    assert result["memory_mb"]["last_tenth"] > 0
    (row,) = screening_table([result]).rows
    assert row[-1] == "bit for bit"
    other = {**result, "where": "Ray", "output_sha256": "another"}
    assert [row[-1] for row in screening_table([other, result]).rows] == ["bit for bit", "NO"]


@pytest.mark.skipif(not HAS_RAY, reason="ray is not installed")
def test_a_killed_worker_of_ray_changes_nothing(tmp_path):
    single, spread = (walk(tmp_path, where, 2000) for where in ("one process", "Ray"))
    assert spread["killed"] == 1
    assert spread["found"] == 2000
    assert spread["output_sha256"] == single["output_sha256"]
