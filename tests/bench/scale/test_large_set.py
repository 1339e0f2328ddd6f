from cliffordstf import datasets
from cliffordstf.bench.jobs.sweep import Sweep, read_results
from cliffordstf.bench.scale.large_set import LargeSetJob, large_set_table


def test_a_set_on_disk_takes_less_memory_than_the_same_in_memory(tmp_path):
    """21,000 structures of about 0.5 kB in 21 shards; read into memory they take several times as much."""
    sweep = Sweep(tmp_path / "results", tmp_path / "work", raises=True)
    source = datasets.path("ethanol_gfn2")
    jobs = [LargeSetJob(source, 21_000, 10, in_memory) for in_memory in (False, True)]
    sweep.run(jobs, lambda _: None)
    disk, memory = read_results(sweep.results)
    assert (disk["in_memory"], memory["in_memory"]) == (False, True)
    assert disk["steps_done"] == memory["steps_done"] == 10
    assert disk["set_mb"] > 8
    saved = memory["peak_memory_mb"] - disk["peak_memory_mb"]
    assert saved > 2 * disk["set_mb"], "what is on disk must not be in memory as well"
    assert len(large_set_table([disk, memory]).rows) == 2
