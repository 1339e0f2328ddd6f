import re
import signal

import pytest
from typer.testing import CliRunner

from cliffordstf import zoo
from cliffordstf.bench.jobs.sweep import Sweep, read_results
from cliffordstf.bench.literature.paper_values import paper_models
from cliffordstf.bench.studies import scaling
from cliffordstf.bench.studies.scaling import FAMILIES, UNITS, ScalingJob, models_here, scaling_job
from cliffordstf.bench.tables.all_tables import all_tables
from cliffordstf.bench.tables.scaling_table import scaling_tables
from cliffordstf.cli.main import app
from cliffordstf.errors import ConfigError
from cliffordstf.train.run import Silence

TINY = ("model.channels=4", "model.hidden=4", "batch_size=4", "data.valid=4")


def job(clusters, steps: int = 14, model: str = "default/small", **more) -> ScalingJob:
    return scaling_job(str(clusters), steps=steps, model=model, overrides=TINY, label="tiny", **more)


@pytest.fixture
def sweep(tmp_path, monkeypatch) -> Sweep:
    """Memory is measured in a process of its own, which takes seconds to start; one test does that."""
    monkeypatch.setattr(scaling, "peak_memory_of_training", lambda _: 12.0)
    return Sweep(tmp_path / "results", tmp_path / "work")


def test_a_run_has_exactly_its_steps_and_reports_time_loss_and_errors(sweep, clusters):
    assert sweep.run([job(clusters)], lambda _: None).is_done
    (result,) = read_results(sweep.results)
    assert (result["steps"], result["budget_steps"], result["budget"], result["timed_steps"]) == (14, 14, None, 4)
    low, high = result["step_quartiles"]
    assert 0 < low <= result["step_seconds"] <= high
    assert result["units"] == UNITS
    assert result["structures_a_step"] == 4
    assert result["command"]
    assert result["machine"]["processor"]
    assert result["config"]["data"]["train"] == clusters.name
    assert [row["step"] for row in result["history"]] == [2, 4, 6, 8, 10, 12, 14]
    assert result["validation"]["force_mae_mev_per_a"] == pytest.approx(
        result["history"][-1]["valid_force_mae_mev_per_a"], rel=1e-4
    )
    assert result["validation"]["baseline_force_mae_mev_per_a"] > 0
    assert result["last_loss"] > 0


def test_a_budget_ends_a_run_without_hurrying_its_learning_rate(sweep, clusters):
    class Shares(Silence):
        def __init__(self):
            self.first = None

        def step(self, progress, share, loss):
            self.first = self.first or share

    free, limited = Shares(), Shares()
    assert sweep.run([job(clusters)], lambda _: None, free).is_done
    assert sweep.run([job(clusters, budget="0.0001s")], lambda _: None, limited).is_done
    whole, ended = sorted(read_results(sweep.results), key=lambda result: -result["steps"])
    assert (whole["steps"], ended["steps"], ended["cut_after"], ended["budget"]) == (14, 1, 0.0001, None)
    assert limited.first == free.first == pytest.approx(1 / 14), "share of the run that the learning rate follows"
    assert ended["validation"]["force_mae_mev_per_a"] > 0


def test_a_stopped_run_goes_on_to_the_same_result(sweep, clusters):
    class Stopper(Silence):
        def step(self, progress, share, loss):
            if progress.step == 12:
                signal.raise_signal(signal.SIGTERM)

    assert sweep.run([job(clusters)], lambda _: None, Stopper()).is_stopped
    assert sweep.run([job(clusters)], lambda _: None).is_done
    whole = Sweep(sweep.results.with_name("results-2"), sweep.work.with_name("work-2"))
    assert whole.run([job(clusters)], lambda _: None)
    (parts,), (straight,) = (read_results(folder.results) for folder in (sweep, whole))
    assert (parts["last_loss"], parts["validation"]) == (straight["last_loss"], straight["validation"])
    assert parts["timed_steps"] == 2, "of each sitting the first ten updates are warm-up"


def test_a_run_that_diverges_is_a_result(sweep, clusters):
    wild = ("optimizer.learning_rate=1e30", "optimizer.clip=null", "schedule.warmup_steps=0")
    diverging = scaling_job(str(clusters), steps=14, model="default/small", overrides=(*TINY, *wild), label="wild")
    assert sweep.run([job(clusters), diverging], lambda _: None).is_done
    results = read_results(sweep.results)
    wild_result = next(result for result in results if result["recipe"].endswith("wild"))
    assert re.fullmatch(r"the loss is \S+ and its gradient \S+ at step \d+", wild_result["diverged"])
    assert wild_result["parameters"] > 0
    _, learned = scaling_tables(results)
    assert (learned.rows[1][0], learned.rows[1][3]) == ("default/small wild", "1 of 1 diverged")


def test_memory_is_that_of_a_process_of_its_own(clusters):
    found = scaling.peak_memory_of_training(job(clusters).config)
    if found is None:
        pytest.skip("this system does not report the peak memory of a process")
    assert 1 < found < 1000


def test_the_command_runs_what_is_installed_and_prints_both_tables(sweep, clusters, monkeypatch):
    folders = ["--results", str(sweep.results), "--work", str(sweep.work)]
    command = ["bench", "scaling", "--data", str(clusters), "--steps", "12", "--seeds", "0,1", *folders]
    monkeypatch.setattr(
        "cliffordstf.cli.benchmarks.checks.models_here", lambda: (["default/small"], {"x": "no x here."})
    )
    runner = CliRunner()
    assert runner.invoke(app, [*command, *TINY]).exit_code != 0, "options without a name must be refused"
    monkeypatch.setitem(FAMILIES, "test", ("default/small", "default/small"))
    done = runner.invoke(app, [*command, *TINY, "--recipe", "tiny"])
    assert done.exit_code == 0, done.output
    assert "left out: no x here." in done.output
    timing, *runs = sorted(read_results(sweep.results), key=lambda result: "kind" not in result)
    assert (timing["family"], timing["small"], len(runs)) == ("test", "default/small tiny", 2)
    assert [table.title.split(",")[0] for table in all_tables(read_results(sweep.results))] == ["Scaling", "Scaling"]


def test_too_few_steps_to_time_are_refused(clusters):
    with pytest.raises(ConfigError, match="must be more than 10"):
        scaling_job(str(clusters), steps=10)


def test_the_models_are_those_of_the_paper_and_ours():
    large = {large for _, large in FAMILIES.values()}
    assert large == {*paper_models("scaling"), "default/10m"}
    here, missing = models_here()
    assert {"default/1m", "default/10m", "paper/full", "paper/full-10m", "paper/clifford-10m"} <= set(here)
    assert set(missing) <= set(zoo.names())
    assert {*here, *missing} == {name for pair in FAMILIES.values() for name in pair}
