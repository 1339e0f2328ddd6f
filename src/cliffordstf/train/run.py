"""A training run from config to model file, metrics and report."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import torch

from cliffordstf.data.baseline import Baseline
from cliffordstf.data.dataset import BatchPlan, Dataset
from cliffordstf.data.duplicates import Mark
from cliffordstf.errors import ConfigError
from cliffordstf.host.allocator import freed_memory_kept
from cliffordstf.host.denormals import without_denormals
from cliffordstf.host.files import write_json, write_text
from cliffordstf.kernels import kernel_name
from cliffordstf.model.file import load_model, save_model
from cliffordstf.model.potential import Potential
from cliffordstf.model.shipped import resolve
from cliffordstf.train import parallel
from cliffordstf.train.config import TrainConfig, load_run_config, to_yaml
from cliffordstf.train.data_digests import data_digests
from cliffordstf.train.divide import InMemory
from cliffordstf.train.evaluate import evaluate
from cliffordstf.train.evaluation import Evaluation
from cliffordstf.train.loggers import RunLogger, check_loggers, open_loggers
from cliffordstf.train.loop import Trainer
from cliffordstf.train.metrics import compute_metrics
from cliffordstf.train.progress import Hooks, Progress
from cliffordstf.train.provenance import describe_run, file_digest
from cliffordstf.train.run_folder import CONFIG, held, replace_run, write_history
from cliffordstf.train.setup import Setup, prepare

DOMAIN_BATCHES = 200
"""Batches of the training set whose atoms tell what is like it; more would cost time and change nothing."""
_NO_LOGGERS: Sequence[RunLogger] = ()


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
        baseline: Of its training set, for the evaluation of further test sets.
        learned: Marks of its training set, to tell further test sets from it.
        warnings: What the user should know of the data.
    """

    directory: Path
    potential: Potential
    evaluations: dict[str, Evaluation]
    metrics: dict[str, dict[str, Any]]
    history: list[dict[str, Any]]
    provenance: dict[str, Any]
    baseline: Baseline
    learned: tuple[Mark, ...]
    warnings: list[str]


def train(
    config: TrainConfig,
    directory: Path,
    watcher: Watcher | None = None,
    memory: InMemory | None = None,
    overwrite: bool = False,
) -> RunResult | None:
    """Train in a new folder; None if a signal stopped the run, which `resume` then continues.

    The folder is made once everything is ready to start: a run that cannot start leaves nothing behind.

    Args:
        config: The run's config.
        directory: Its folder.
        watcher: Is told how the run goes.
        memory: Structures instead of files, by the option that they stand for.
        overwrite: Replace the folder of an earlier run.
    """
    return _run(config, directory, watcher or Silence(), None, memory, overwrite)


def resume(
    directory: Path,
    watcher: Watcher | None = None,
    memory: InMemory | None = None,
    accept_changed_data: bool = False,
    **changes: Any,
) -> RunResult | None:
    """Continue a run where its last checkpoint is; options such as `budget` may be changed.

    Args:
        directory: Of the run.
        watcher: Is told how the run goes.
        memory: Structures instead of files, by the option that they stand for.
        accept_changed_data: Go on although structures or labels are not those that the run began with.
        **changes: Options that are changed.

    Raises:
        ConfigError: The folder holds no run, another process goes on with it, or its data have changed.
    """
    if not (directory / CONFIG).is_file():
        raise ConfigError(f"{directory} holds no run (no {CONFIG}); give the folder that 'train' printed.")
    overrides = [f"{key}={value}" for key, value in changes.items() if value is not None]
    config = load_run_config(directory, overrides)
    has_checkpoint = (directory / "last.ckpt").is_file()
    with held(directory) if parallel.is_main() else nullcontext():
        return _run(config, directory, watcher or Silence(), has_checkpoint, memory, False, accept_changed_data)


@contextmanager
def _threads_restored() -> Iterator[None]:
    """Undo `threads` of the config, which `prepare` sets for the whole process."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


@freed_memory_kept()
@without_denormals()
@_threads_restored()
def _run(
    config: TrainConfig,
    directory: Path,
    watcher: Watcher,
    has_checkpoint: bool | None,
    memory: InMemory | None,
    overwrite: bool,
    accept_changed_data: bool = False,
) -> RunResult | None:
    """Train; `has_checkpoint` is None for a new run."""
    check_loggers(config.loggers)
    setup = prepare(config, memory)
    # Kernels that are not built yet are built now: the time of the first step counts.
    weight = next(setup.potential.parameters())
    kernel_name(weight.device, weight.dtype)
    provenance = _provenance(config, setup)
    outputs = _Outputs(config, directory, setup, provenance, watcher)
    hooks = Hooks(step=outputs.step, validated=outputs.validated, best=outputs.keep_best)
    trainer = Trainer(
        setup.potential, setup.train, setup.valid, setup.plan, config, setup.baseline, directory / "last.ckpt", hooks
    )
    trainer.data_digests = data_digests(setup.train.frames, setup.valid.frames)
    if has_checkpoint:
        trainer.resume(accept_changed_data)
    outputs.progress = trainer.progress
    with ExitStack() as stack:
        stack.callback(outputs.close)
        if parallel.is_main():
            if has_checkpoint is None:
                if overwrite:
                    replace_run(directory)
                stack.enter_context(held(directory))
            outputs.open()
            watcher.prepared(setup, directory)
        finished = trainer.run()
        if not finished or not parallel.is_main():
            return None
        provenance = {**provenance, "passes": round(trainer.passes(), 3)}
        return _finish(setup, directory, trainer.progress, provenance)


class _Outputs:
    """What the main process of a run writes on its way, and whom it tells."""

    def __init__(
        self, config: TrainConfig, directory: Path, setup: Setup, provenance: dict[str, Any], watcher: Watcher
    ) -> None:
        self.config, self.directory, self.setup = config, directory, setup
        self.provenance, self.watcher = provenance, watcher
        self.progress = Progress()
        self.loggers = _NO_LOGGERS

    def open(self) -> None:
        """Make the folder; from here on the run has begun."""
        write_text(self.directory / CONFIG, to_yaml(self.config))
        self.loggers = open_loggers(self.config.loggers, self.directory, self.config.model_dump(mode="json"))

    def step(self, progress: Progress, share: float, loss: float) -> None:
        """After an update."""
        if parallel.is_main():
            self.watcher.step(progress, share, loss)

    def validated(self, row: dict[str, float | None]) -> None:
        """After a validation."""
        if parallel.is_main():
            write_history(self.directory / "history.csv", self.progress.history)
            for logger in self.loggers:
                logger.log(row, int(row["step"] or 0))
            self.watcher.validated(row)

    def keep_best(self) -> None:
        """After a validation that was the best so far."""
        if parallel.is_main():
            save_model(self.setup.potential, self.directory / "best.safetensors", self.provenance)

    def close(self) -> None:
        """At the end, whatever it was."""
        for logger in self.loggers:
            logger.close()


def _finish(setup: Setup, directory: Path, progress: Progress, provenance: dict[str, Any]) -> RunResult:
    """Evaluate the best weights, once, and write the model with what was found."""
    potential, _ = load_model(directory / "best.safetensors")
    plan = BatchPlan(4 * setup.plan.size, setup.plan.max_atoms, setup.plan.max_edges)
    sets: dict[str, Dataset] = {"validation": setup.valid, "test": setup.test}
    evaluations = {n: evaluate(potential, data, plan, setup.baseline) for n, data in sets.items() if len(data)}
    metrics = {name: compute_metrics(evaluation) for name, evaluation in evaluations.items()}
    provenance = {
        **provenance,
        "training_seconds": round(progress.seconds, 1),
        "steps": progress.step,
        "epochs": progress.epoch,
        "best_epoch": progress.best_epoch,
        "errors": {name: headline(values) for name, values in metrics.items()},
    }
    potential.learn_domain(labels.batch for labels in islice(setup.train.batches(plan), DOMAIN_BATCHES))
    save_model(potential, directory / "model.safetensors", provenance)
    report = {"provenance": provenance, "warnings": setup.splits.warnings, **metrics}
    write_json(directory / "metrics.json", report)
    return RunResult(
        directory=directory,
        potential=potential,
        evaluations=evaluations,
        metrics=metrics,
        history=progress.history,
        provenance=provenance,
        baseline=setup.baseline,
        learned=setup.splits.learned,
        warnings=setup.splits.warnings,
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
        "stress_mae_gpa",
        "baseline_energy_mae_mev",
        "baseline_force_mae_mev_per_a",
    )
    return {name: metrics[name] for name in names if metrics.get(name) is not None}


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
        "baseline": setup.baseline.as_json(),
        "chosen": {choice.option: choice.value for choice in setup.choices},
        "started_from": _parent(config),
    }


def _parent(config: TrainConfig) -> dict[str, Any] | None:
    """The model that a fine-tuned one started from."""
    if config.finetune is None:
        return None
    path = resolve(config.finetune.model)
    return {"file": path.name, "sha256": file_digest(path)}
