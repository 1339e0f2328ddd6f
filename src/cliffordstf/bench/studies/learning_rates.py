"""Which learning rate a model wants in a short run: judged by validation data, so that test sets stay unseen."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cliffordstf.bench.jobs.protocols import sound_rate
from cliffordstf.bench.jobs.training_job import TrainingJob
from cliffordstf.bench.literature.published_values import RMD17_MOLECULES
from cliffordstf.bench.studies.rmd17 import rmd17_job
from cliffordstf.bench.studies.scalar_targets import QM9, scalar_job
from cliffordstf.bench.tables.formatting import (
    Length,
    baseline_errors,
    circumstances,
    errors,
    length,
    length_text,
    sizes,
    spread,
)
from cliffordstf.bench.tables.table import Table

VALIDATION_MOLECULES = 2000
"""Of QM9, the first of those that its study validates with; all 13,000 would take longer than a short run."""


def rates_job(
    data: Path,
    molecule: str,
    model: str,
    rate: float,
    *,
    budget: str = "3min",
    seed: int = 0,
    overrides: Sequence[str] = (),
) -> TrainingJob:
    """A short run on rMD17 with a learning rate, as `rmd17_job` makes it, but without its test set."""
    unseen = ("data.test=0", "data.test_indices=null")
    job = rmd17_job(
        data,
        molecule,
        budget=budget,
        seed=seed,
        model=model,
        overrides=(f"optimizer.learning_rate={rate:g}", *unseen, *overrides),
        label=_name(model, rate),
        benchmark="rates",
    )
    return replace(job, judged_by="validation")


def scalar_rates_job(
    data: str,
    target: str,
    model: str,
    rate: float,
    *,
    budget: str = "3min",
    seed: int = 0,
    exclude: Path | None = None,
    overrides: Sequence[str] = (),
) -> TrainingJob:
    """A short run on QM9 with a learning rate: the test set of its study is drawn and left alone."""
    unseen = (f"data.valid={VALIDATION_MOLECULES}", "data.judge_test=false")
    job = scalar_job(
        "qm9",
        data,
        target,
        budget=budget,
        seed=seed,
        model=model,
        exclude=exclude,
        overrides=(f"optimizer.learning_rate={rate:g}", *unseen, *overrides),
        label=_name(model, rate),
    )
    return replace(job, labels={**job.labels, "benchmark": "rates"}, judged_by="validation")


def _name(model: str, rate: float) -> str:
    return f"{model} rate {rate:g}"


def rates_table(results: Sequence[dict[str, Any]], what: str, each: Length) -> Table:
    """Models by learning rate on a molecule of rMD17 or a target of QM9, and the rate that `sound` takes since."""
    chosen = [r for r in results if (_what(r), length(r)) == (what, each)]
    rates = sorted({_rate(result) for result in chosen})
    is_scalar = "target" in chosen[0]
    measured = (
        f"QM9 {what}{sizes(chosen)}, {length_text(each)} each, protocol sound: validation MAE, {QM9[what].unit}"
        if is_scalar
        else f"rMD17 {what}, {chosen[0]['train']} training frames, {length_text(each)} each, protocol sound: "
        "validation energy MAE, meV / force MAE, meV/Å (force cosine)"
    )
    table = Table(
        f"Learning rates, {measured}; nothing where a run diverged or was not made; {circumstances(chosen)}",
        ["model", *(f"{rate:g}" for rate in rates), "taken"],
    )
    for model in dict.fromkeys(result["model"] for result in chosen):
        cells = [[r for r in chosen if (r["model"], _rate(r)) == (model, rate)] for rate in rates]
        taken = sound_rate(model, "qm9" if is_scalar else "rmd17")
        table.add(model, *(_errors(runs) for runs in cells), "ours" if taken is None else f"{taken:g}")
    table.add("baseline", *([_baseline(chosen[0])] * len(rates)), "")
    return table


def _errors(runs: Sequence[dict[str, Any]]) -> str:
    if not runs or "target" not in runs[0]:
        return errors([run["metrics"] for run in runs])
    target = QM9[runs[0]["target"]]
    return spread([target.in_unit(run["metrics"]["energy_mae_mev"]) for run in runs], 3)


def _baseline(result: dict[str, Any]) -> str:
    if "target" not in result:
        return baseline_errors(result["metrics"])
    return f"{QM9[result['target']].in_unit(result['metrics']['baseline_energy_mae_mev']):.3f}"


def rates_tables(results: Sequence[dict[str, Any]]) -> list[Table]:
    """One for every molecule or target and budget."""
    known = (*RMD17_MOLECULES, *QM9)
    keys = {(_what(result), length(result)) for result in results}
    ordered = sorted(keys, key=lambda key: (known.index(key[0]), key[1]))
    return [rates_table(results, what, each) for what, each in ordered]


def _what(result: dict[str, Any]) -> str:
    """Molecule or target."""
    return str(result.get("molecule") or result["target"])


def _rate(result: dict[str, Any]) -> float:
    return float(result["config"]["optimizer"]["learning_rate"])
