import json
import signal
import time
from dataclasses import replace
from multiprocessing import get_context
from typing import ClassVar

import pytest

from cliffordstf.bench.jobs.sweep import Sweep, SweepError, read_results
from cliffordstf.bench.jobs.training_job import TrainingJob
from cliffordstf.errors import DataError
from cliffordstf.host.files import lock
from cliffordstf.train.config import load_config, to_yaml
from cliffordstf.train.run import Silence


@pytest.fixture
def jobs(options) -> list[TrainingJob]:
    return [
        TrainingJob(f"lj-seed{seed}", {"kind": "lj"}, load_config(None, [*options, f"seed={seed}"])) for seed in (0, 1)
    ]


@pytest.fixture
def sweep(tmp_path) -> Sweep:
    return Sweep(tmp_path / "results", tmp_path / "work")


def test_every_job_leaves_one_result_and_is_not_run_again(sweep, jobs, tmp_path):
    said: list[str] = []
    assert sweep.run(jobs, said.append).is_done
    first, second = read_results(sweep.results)
    assert (first["kind"], first["seed"], second["seed"]) == ("lj", 0, 1)
    assert first["metrics"]["n_structures"] == 4
    assert first["metrics"]["force_mae_mev_per_a"] != second["metrics"]["force_mae_mev_per_a"]
    assert first["config"]["data"]["train"] == "clusters.extxyz"
    assert str(tmp_path) not in json.dumps(first["config"])
    assert first["history"][-1]["epoch"] == first["epochs"]
    said.clear()
    assert sweep.run(jobs, said.append).is_done
    assert [line.split(": ")[1] for line in said] == ["done before", "done before"]


def test_a_stopped_sweep_goes_on_where_it_was(sweep, jobs):
    class Stopper(Silence):
        def step(self, progress, share, loss):
            if progress.step == 3:
                signal.raise_signal(signal.SIGTERM)

    assert sweep.run(jobs, lambda _: None, Stopper()).is_stopped
    assert not list(sweep.results.glob("*.json"))
    assert sweep.run(jobs, lambda _: None).is_done
    assert len(read_results(sweep.results)) == 2
    uninterrupted = Sweep(sweep.results.with_name("results-2"), sweep.work.with_name("work-2"))
    assert uninterrupted.run(jobs, lambda _: None).is_done
    errors = [
        [r["metrics"]["force_mae_mev_per_a"] for r in read_results(folder.results)] for folder in (sweep, uninterrupted)
    ]
    assert errors[0] == errors[1]


def test_a_job_that_fails_leaves_the_others_alone(sweep, jobs, options):
    bad = TrainingJob("bad", {}, load_config(None, [*options, "data.valid=0", "patience=3"]))
    started, said = time.time(), []
    outcome = sweep.run([bad, jobs[0]], said.append)
    assert (outcome.is_stopped, outcome.is_done, list(outcome.failed)) == (False, False, ["bad"])
    assert sweep.result_file(jobs[0]).is_file()
    assert "1/2 bad: failed: patience and the plateau" in said[1]
    with pytest.raises(SweepError, match=r"1 of 2 jobs failed, the others did not\. bad: patience and"):
        outcome.check(2)
    # Another process of the same sweep does not try it again, the next sweep does.
    said.clear()
    assert list(sweep.run([bad, jobs[0]], said.append, since=started).failed) == ["bad"]
    assert said == ["1/2 bad: failed in another process", f"2/2 {jobs[0].name}: done before"]
    # A start that failed left nothing, so another run may have the name; one that began keeps it.
    folder = sweep.work / "bad"
    assert not (folder / "config.yaml").exists()
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(to_yaml(bad.config), encoding="utf-8")
    assert (
        sweep.run([TrainingJob("bad", {}, jobs[1].config)], said.append).failed["bad"].endswith("recipe differently.")
    )


class Broken:
    """A job whose code has a mistake."""

    name = "broken"
    labels: ClassVar[dict] = {}

    def settings(self) -> dict:
        return {}

    def run(self, directory, watcher):
        raise RuntimeError("index out of range\nin somebody else's code")


def test_an_error_that_is_none_of_ours_does_not_end_the_sweep(sweep, jobs):
    outcome = sweep.run([Broken(), jobs[0]], lambda _: None)
    assert outcome.failed["broken"].startswith("RuntimeError: index out of range (see ")
    assert not outcome.is_stopped
    assert sweep.result_file(jobs[0]).is_file()
    assert "somebody else's code" in (sweep.work / "broken.traceback").read_text(encoding="utf-8")
    mended = replace(jobs[0], name="broken")
    assert sweep.run([mended], lambda _: None).is_done
    assert not list(sweep.work.glob("broken.[ft]*"))


def test_a_result_says_how_its_model_was_built(sweep, jobs):
    sweep.run(jobs[:1], lambda _: None)
    (found,) = read_results(sweep.results)
    assert found["model_options"]["cutoff"] > 0
    assert found["model_options"]["channels"] > 0


def test_the_run_or_result_of_other_options_is_not_taken_for_this_one(sweep, jobs, options):
    other = TrainingJob(jobs[0].name, {"kind": "other"}, load_config(None, [*options, "seed=7"]))
    sweep.work.mkdir(parents=True)
    (sweep.work / other.name).mkdir()
    (sweep.work / other.name / "config.yaml").write_text(to_yaml(other.config), encoding="utf-8")
    assert "run with other options" in sweep.run(jobs[:1], lambda _: None).failed[jobs[0].name]
    assert sweep.run([other], lambda _: None).is_done
    assert "result of other options" in sweep.run(jobs[:1], lambda _: None).failed[jobs[0].name]
    faster = TrainingJob(
        other.name, other.labels, load_config(None, [*options, "seed=7", "optimizer.learning_rate=0.04"])
    )
    assert "result of other options" in sweep.run([faster], lambda _: None).failed[other.name]
    assert sweep.run([other], lambda _: None).is_done
    sweep.result_file(other).write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="not a result file"):
        read_results(sweep.results)


def test_two_processes_do_not_run_the_same_job(sweep, jobs):
    holder = get_context("spawn").Process(target=_hold, args=(sweep.work / "lj-seed0.lock", sweep.work / "held"))
    holder.start()
    try:
        while not (sweep.work / "held").exists():
            assert holder.is_alive()
        said: list[str] = []
        assert sweep.run(jobs, said.append).is_done
        assert said[0] == "1/2 lj-seed0: another process is at it"
        assert [result["seed"] for result in read_results(sweep.results)] == [1]
    finally:
        holder.kill()
        holder.join()
    assert sweep.run(jobs, said.append).is_done, "the lock must go with its holder, even when it is killed"
    assert len(read_results(sweep.results)) == 2


def _hold(path, sign) -> None:
    with lock(path) as held:
        assert held
        sign.touch()
        signal.pause()
