"""A training run from config to model file, metrics and report."""

import csv
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cliffordstf.data.dataset import BatchPlan, Dataset
from cliffordstf.denormals import without_denormals
from cliffordstf.errors import ConfigError
from cliffordstf.kernels import kernel_name
from cliffordstf.model.file import load_model, save_model
from cliffordstf.model.potential import Potential
from cliffordstf.model.shipped import resolve
from cliffordstf.provenance import describe_run, file_digest
from cliffordstf.train import parallel
from cliffordstf.train.config import TrainConfig, load_run_config, to_yaml
from cliffordstf.train.evaluate import BaselineModel, constant_energy, evaluate
from cliffordstf.train.evaluation import Evaluation
from cliffordstf.train.loop import Trainer
from cliffordstf.train.metrics import compute_metrics
from cliffordstf.train.progress import Hooks, Progress
from cliffordstf.train.setup import Setup, prepare


class Watcher(Protocol):
    """Who is told how a run goes; the command line shows it, tests listen to it."""

    def prepared(self, setup: Setup, directory: Path) -> None:
        """Called once, before the first step."""

    def step(self, progress: Progress, share: float, loss: float) -> None:
        """Called after every update."""

    def validated(self, row: dict[str, float | None]) -> None:
        """Called after every validation."""


class Silence:
    """A watcher that does nothing."""

    def prepared(self, setup: Setup, directory: Path) -> None:
        """Do nothing."""

    def step(self, progress: Progress, share: float, loss: float) -> None:
        """Do nothing."""

    def validated(self, row: dict[str, float | None]) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class RunResult:
    """What a finished run leaves.

    Attributes:
        directory: With config.yaml, history.csv, last.ckpt, model.safetensors and metrics.json.
        potential: The best weights.
        evaluations: Of the validation and test sets, by name.
        metrics: The same by name, as `compute_metrics` gives them.
        history: One row per validation.
        provenance: Where it comes from.
        baseline: Energies of the baseline model of its training set, for the evaluation of further test sets.
        learned: Fingerprints of its training set, to tell further test sets from it.
    """

    directory: Path
    potential: Potential
    evaluations: dict[str, Evaluation]
    metrics: dict[str, dict[str, Any]]
    history: list[dict[str, Any]]
    provenance: dict[str, Any]
    baseline: BaselineModel
    learned: frozenset[str]


def free_directory(base: Path) -> Path:
    """The folder, or the first of `-2`, `-3`, … that does not exist: nothing is ever overwritten."""
    candidate, number = base, 1
    while candidate.exists():
        number += 1
        candidate = base.with_name(f"{base.name}-{number}")
    return candidate


def train(config: TrainConfig, directory: Path, watcher: Watcher | None = None) -> RunResult | None:
    """Train in a new folder; None if a signal stopped the run, which `resume` then continues."""
    if parallel.is_main():
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "config.yaml").write_text(to_yaml(config), encoding="utf-8")
    return _run(config, directory, watcher or Silence(), resumed=False)


def resume(directory: Path, watcher: Watcher | None = None, **changes: Any) -> RunResult | None:
    """Continue a run where its last checkpoint is; options such as `budget` may be changed.

    Raises:
        ConfigError: The folder holds no run.
    """
    if not (directory / "config.yaml").is_file():
        raise ConfigError(f"{directory} holds no run (no config.yaml); give the folder that 'train' printed.")
    overrides = [f"{key}={value}" for key, value in changes.items() if value is not None]
    config = load_run_config(directory, overrides)
    if overrides and parallel.is_main():
        (directory / "config.yaml").write_text(to_yaml(config), encoding="utf-8")
    return _run(config, directory, watcher or Silence(), resumed=(directory / "last.ckpt").is_file())


@without_denormals()
def _run(config: TrainConfig, directory: Path, watcher: Watcher, resumed: bool) -> RunResult | None:
    setup = prepare(config)
    # Kernels that are not built yet are built now: the time of the first step counts.
    weight = next(setup.potential.parameters())
    kernel_name(weight.device, weight.dtype)
    baseline = constant_energy(setup.train, setup.references)
    provenance = _provenance(config, setup)
    best = directory / "best.safetensors"
    writer = _tensorboard(directory) if parallel.is_main() else None

    def keep_best() -> None:
        if parallel.is_main():
            save_model(setup.potential, best, provenance)

    def validated(row: dict[str, float | None]) -> None:
        if parallel.is_main():
            write_history(directory / "history.csv", trainer.progress.history)
            if writer is not None:
                for name, value in row.items():
                    if isinstance(value, int | float):
                        writer.add_scalar(name, value, int(row["step"] or 0))
            watcher.validated(row)

    def stepped(progress: Progress, share: float, loss: float) -> None:
        if parallel.is_main():
            watcher.step(progress, share, loss)

    trainer = Trainer(
        setup.potential,
        setup.train,
        setup.valid,
        setup.plan,
        config,
        baseline,
        directory / "last.ckpt",
        Hooks(step=stepped, validated=validated, best=keep_best),
    )
    if resumed:
        trainer.resume()
    if parallel.is_main():
        watcher.prepared(setup, directory)
    finished = trainer.run()
    if not finished or not parallel.is_main():
        return None
    provenance = {**provenance, "passes": round(trainer.passes(), 3)}
    return _finish(setup, baseline, directory, trainer.progress, provenance)


def _finish(
    setup: Setup, baseline: BaselineModel, directory: Path, progress: Progress, provenance: dict[str, Any]
) -> RunResult:
    """Evaluate the best weights, once, and write the model with what was found."""
    potential, _ = load_model(directory / "best.safetensors")
    plan = BatchPlan(4 * setup.plan.size, setup.plan.max_atoms, setup.plan.max_edges)
    sets: dict[str, Dataset] = {"validation": setup.valid, "test": setup.test}
    evaluations = {n: evaluate(potential, data, plan, baseline) for n, data in sets.items() if len(data)}
    metrics = {name: compute_metrics(evaluation) for name, evaluation in evaluations.items()}
    provenance = {
        **provenance,
        "training_seconds": round(progress.seconds, 1),
        "steps": progress.step,
        "epochs": progress.epoch,
        "best_epoch": progress.best_epoch,
        "errors": {name: headline(values) for name, values in metrics.items()},
    }
    save_model(potential, directory / "model.safetensors", provenance)
    report = {"provenance": provenance, **metrics}
    (directory / "metrics.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return RunResult(
        directory, potential, evaluations, metrics, progress.history, provenance, baseline, setup.splits.learned
    )


def headline(metrics: dict[str, Any]) -> dict[str, Any]:
    """The few numbers that a model file carries."""
    names = (
        "n_structures",
        "energy_mae_mev",
        "energy_mae_mev_per_atom",
        "force_mae_mev_per_a",
        "force_rmse_mev_per_a",
        "force_cosine",
        "stress_mae_mev_per_a3",
        "baseline_energy_mae_mev",
        "baseline_force_mae_mev_per_a",
    )
    return {name: metrics[name] for name in names if metrics.get(name) is not None}


def write_history(path: Path, rows: list[dict[str, Any]]) -> None:
    """The history as CSV, written whole so that it always agrees with the checkpoint."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    temporary = path.with_suffix(".csv.tmp")
    with temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, names)
        writer.writeheader()
        writer.writerows(rows)
    temporary.replace(path)


def _provenance(config: TrainConfig, setup: Setup) -> dict[str, Any]:
    return {
        **describe_run(),
        "level_of_theory": config.level_of_theory,
        "seed": config.seed,
        "budget_seconds": config.budget,
        "parameters": sum(parameter.numel() for parameter in setup.potential.parameters()),
        "data": [
            {
                "file": source.path.name,
                "sha256": file_digest(source.path),
                "format": source.format,
                "units": source.units,
            }
            for source in setup.splits.sources
        ],
        "structures": {"train": len(setup.train), "validation": len(setup.valid), "test": len(setup.test)},
        "references": setup.references.mode,
        "started_from": _parent(config),
    }


def _parent(config: TrainConfig) -> dict[str, Any] | None:
    """The model that a fine-tuned one started from."""
    if config.finetune is None:
        return None
    path = resolve(config.finetune.model)
    return {"file": path.name, "sha256": file_digest(path)}


def _tensorboard(directory: Path) -> Any:
    """A TensorBoard writer if the package is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return SummaryWriter(str(directory / "tensorboard"))


def run_name(data: str) -> str:
    """A folder name from the name of a data file."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(data).name.split(".")[0]).strip("-")
    return stem or time.strftime("run-%Y%m%d-%H%M%S")
