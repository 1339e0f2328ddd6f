"""Several training runs on the same data, side by side, judged by their ensemble mean."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cliffordstf.bench.jobs.launch import run_in_processes
from cliffordstf.bench.jobs.sweep import Sweep, SweepError
from cliffordstf.bench.jobs.training_job import TrainingJob
from cliffordstf.data.dataset import BatchPlan
from cliffordstf.model.ensemble import Ensemble
from cliffordstf.model.file import load_model
from cliffordstf.train.evaluate import evaluate
from cliffordstf.train.metrics import compute_metrics
from cliffordstf.train.provenance import describe_run
from cliffordstf.train.run import Watcher, headline
from cliffordstf.train.setup import prepare

APART = 1000
"""Between the seeds of two members."""


@dataclass(frozen=True)
class EnsembleJob:
    """Members that differ in their seed, trained at the same time on an equal share of the cores each.

    Attributes:
        name: Names its folder and its result; safe for a file name.
        labels: What it is a result of.
        members: The runs; each has the whole budget.
    """

    name: str
    labels: dict[str, Any]
    members: tuple[TrainingJob, ...]

    def settings(self) -> dict[str, Any]:
        """Options of the first member."""
        return self.members[0].settings()

    def run(self, directory: Path, watcher: Watcher | None) -> dict[str, Any] | None:  # noqa: ARG002 - members print
        """Train the members, or go on with them; the result of the mean, or None if a signal stopped them."""
        sweep = Sweep(directory / "results", directory)
        outcome = run_in_processes(sweep, self.members, len(self.members), lambda text: print(text, flush=True))
        outcome.check(len(self.members))
        if outcome.is_stopped:
            return None
        results = [json.loads(sweep.result_file(member).read_text(encoding="utf-8")) for member in self.members]
        if lost := next((result for result in results if result.get("diverged")), None):
            raise SweepError(f"the member with seed {lost['seed']} diverged ({lost['diverged']}), so there is no mean.")
        return {
            **{name: results[0][name] for name in ("budget", "seed", "data", "config")},
            **describe_run(),
            "seconds": max(result["seconds"] for result in results),
            "steps": max(result["steps"] for result in results),
            "epochs": max(result["epochs"] for result in results),
            "passes": max(result["passes"] for result in results),
            "parameters": sum(result["parameters"] for result in results),
            "members": [_member(result) for result in results],
            "metrics": self._metrics(directory),
            "history": results[0]["history"],
        }

    def _metrics(self, directory: Path) -> dict[str, Any]:
        """Errors of the mean on the test set, and those of the baseline model."""
        setup = prepare(self.members[0].config)
        files = [directory / member.name / "model.safetensors" for member in self.members]
        ensemble = Ensemble([load_model(file)[0] for file in files])
        return compute_metrics(evaluate(ensemble, setup.test, BatchPlan(32, 2000), setup.baseline))


def _member(result: dict[str, Any]) -> dict[str, Any]:
    names = ("seed", "seconds", "epochs", "commit", "date", "machine")
    return {**{name: result[name] for name in names}, **headline(result["metrics"])}


def ensemble_job(job: TrainingJob, size: int) -> EnsembleJob:
    """An ensemble in the place of one run."""
    recipe = f"{size} x {job.labels['recipe']}"
    members = tuple(
        TrainingJob(
            f"member{number}",
            {**job.labels, "member": number},
            job.config.model_copy(update={"seed": job.config.seed + APART * number}),
        )
        for number in range(size)
    )
    # The label keeps the name that result files have had from the beginning.
    return EnsembleJob(f"{job.name}-x{size}", {**job.labels, "recipe": recipe, "committee": size}, members)
