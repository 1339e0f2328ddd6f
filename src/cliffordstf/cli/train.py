"""`cliffordstf train`: from a file of structures to a model file, its errors and a report."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from ase.data import chemical_symbols
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from cliffordstf.cli.tables import metrics_table
from cliffordstf.errors import ConfigError
from cliffordstf.model.config import AnyConfig
from cliffordstf.model.family import FamilyConfig
from cliffordstf.report import ReportInputs, ReportSection, write_report, write_summary_png
from cliffordstf.train import parallel
from cliffordstf.train.config import TrainConfig, load_config, to_yaml
from cliffordstf.train.progress import Progress as RunProgress
from cliffordstf.train.run import RunResult, free_directory, resume, run_name, train
from cliffordstf.train.setup import Setup, label_coverage


def train_command(
    source: Annotated[
        str | None, typer.Argument(help="Data file (extxyz, npz, db, …), or a YAML config with data.train in it.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Options as key=value, e.g. model.lmax=3 batch_size=4.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; by default runs/NAME, never overwritten.")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Training time, e.g. 20min.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training set.")] = None,
    test: Annotated[str | None, typer.Option(help="Test set: a file, fraction or count.")] = None,
    resume_from: Annotated[Path | None, typer.Option("--resume", help="Continue the run in this folder.")] = None,
    show_config: Annotated[bool, typer.Option("--show-config", help="Print the full config and stop.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of the config and stop.")] = False,
) -> None:
    """Train a potential on a file of structures."""
    console = Console()
    if schema:
        typer.echo(json.dumps(TrainConfig.model_json_schema(), indent=1, ensure_ascii=False))
        return
    if resume_from is not None:
        if source is not None or out is not None or test is not None:
            raise ConfigError("--resume goes on with a run as it was; only --budget and --epochs can be changed.")
        device = load_config(resume_from / "config.yaml", []).device
        _with_processes(device, console, lambda screen: resume(resume_from, screen, budget=budget, epochs=epochs))
        return
    example = "structures.extxyz" if show_config else None
    config = _config(source or example, overrides or [], budget, epochs, test)
    if show_config:
        typer.echo(to_yaml(config), nl=False)
        return

    def start(screen: Screen) -> RunResult | None:
        directory = free_directory(out or Path("runs") / run_name(config.data.train))
        return train(config, parallel.share(directory), screen)

    _with_processes(config.device, console, start)


def _with_processes(device: str, console: Console, run: Callable[["Screen"], RunResult | None]) -> None:
    parallel.start(device)
    screen = Screen(console)
    try:
        try:
            result = run(screen)
        finally:
            screen.close()
        if parallel.is_main():
            _conclude(console, result, screen)
    finally:
        parallel.stop()


def _config(
    source: str | None, overrides: list[str], budget: str | None, epochs: int | None, test: str | None
) -> TrainConfig:
    if source is None:
        raise ConfigError("give a data file or a YAML config to train on, or --resume FOLDER to continue a run.")
    is_config = source.endswith((".yaml", ".yml"))
    options: list[str] = [] if is_config else [f"data.train={json.dumps(source)}"]
    options += [f"budget={budget}"] if budget else []
    options += [f"epochs={epochs}"] if epochs else []
    options += [f"data.test={json.dumps(test)}" if not _is_number(test) else f"data.test={test}"] if test else []
    return load_config(Path(source) if is_config else None, [*options, *overrides])


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


class Screen:
    """Shows how a run goes: tables before, a bar and a line per validation during it.

    Args:
        console: Where.
        every: Seconds of training between two lines at least.
    """

    def __init__(self, console: Console, every: float = 0.0) -> None:
        self.console, self.every = console, every
        self._printed = -every
        self.directory: Path | None = None
        self.setup: Setup | None = None
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._last: tuple[float, int] | None = None

    def prepared(self, setup: Setup, directory: Path) -> None:
        """Print what is trained on what."""
        self.close()
        self._printed = -self.every
        self.setup, self.directory = setup, directory
        self.console.print(_data_table(setup))
        for warning in setup.splits.warnings:
            self.console.print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)
        config = cast("AnyConfig", setup.potential.model.config)
        name = config.name if isinstance(config, FamilyConfig) else config.profile
        parameters = sum(parameter.numel() for parameter in setup.potential.parameters())
        references = ", ".join(f"{s} {e:.3f}" for s, e in _named(setup).items())
        self.console.print(
            f"model {name}, {parameters:,} parameters, cutoff {config.cutoff:g} Å, "
            f"{setup.plan.size} structures a step; free atoms ({setup.references.mode}, eV): {references}; "
            f"energy scale {float(setup.potential.reference.scale):.4f} eV",
            soft_wrap=True,
        )
        self.console.print(f"run folder {directory}")
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._task = self._bar.add_task("training", total=1.0, left="")
        self._bar.start()
        self._last = None

    def step(self, progress: RunProgress, share: float, loss: float) -> None:
        """Move the bar."""
        if self._last is None:
            self._last = (time.perf_counter(), progress.step - 1)
        if self._bar is None:
            return
        left = progress.seconds * (1 - share) / share if share > 0 else 0.0
        text = f"loss {loss:.3g}, {left / 60:.1f} min left"
        self._bar.update(self._task, completed=share, left=text)

    def validated(self, row: dict[str, float | None]) -> None:
        """Print a line."""
        if (row["seconds"] or 0.0) - self._printed < self.every:
            return
        self._printed = row["seconds"] or 0.0
        now, steps = time.perf_counter(), int(row["step"] or 0)
        since, first = self._last or (now, steps)
        speed = (steps - first) * (self.setup.plan.size if self.setup else 1) / max(now - since, 1e-9)
        self._last = (now, steps)
        parts = [f"epoch {row['epoch']}", f"loss {row['train_loss']:.4g}"]
        for name, label, digits in (
            ("valid_force_mae_mev_per_a", "force MAE {} meV/Å", 2),
            ("valid_energy_mae_mev", "energy MAE {} meV", 2),
            ("valid_force_cosine", "cosine {}", 5),
        ):
            value = row.get(name)
            if value is not None:
                parts.append(label.format(f"{value:.{digits}f}"))
        self.console.print(", ".join([*parts, f"{speed:.0f} structures/s, {(row['seconds'] or 0) / 60:.1f} min"]))

    def close(self) -> None:
        """Stop the bar."""
        if self._bar is not None:
            self._bar.stop()


def _named(setup: Setup) -> dict[str, float]:
    return {chemical_symbols[number]: energy for number, energy in sorted(setup.references.energies.items())}


def _data_table(setup: Setup) -> Table:
    first = setup.splits.sources[0]
    units = ", ".join(f"{key} in {value}" for key, value in first.units.items())
    table = Table(title=f"{first.path.name} ({first.format}; read with {units})")
    table.add_column("set")
    for column in ("structures", "atoms", "with energy", "with forces", "with stress"):
        table.add_column(column, justify="right")
    for name, frames in (
        ("train", setup.splits.train),
        ("validation", setup.splits.valid),
        ("test", setup.splits.test),
    ):
        if frames:
            cover = label_coverage(frames)
            atoms = sum(len(frame.structure) for frame in frames)
            counts = [str(cover[label]) for label in ("energy", "forces", "stress")]
            table.add_row(name, str(len(frames)), str(atoms), *counts)
    return table


def _conclude(console: Console, result: RunResult | None, screen: Screen) -> None:
    if result is None:
        console.print(f"stopped; continue with: cliffordstf train --resume {screen.directory}")
        raise typer.Exit(143)
    for name, metrics in result.metrics.items():
        console.print(metrics_table(metrics, f"{name} set, {metrics['n_structures']} structures"))
    inputs = report_inputs(result)
    page = write_report(inputs, result.directory / "report")
    picture = write_summary_png(inputs, result.directory / "summary.png")
    console.print(f"model    {result.directory / 'model.safetensors'}")
    console.print(f"picture  {picture}")
    console.print(f"report   {page}")


def report_inputs(result: RunResult, **more: Any) -> ReportInputs:
    """What the report shows of a finished run."""
    config = load_config(result.directory / "config.yaml", [])
    fields: dict[str, Any] = {
        "title": f"cliffordstf: {Path(config.data.train).name}",
        "sections": [
            ReportSection(f"{name} set", evaluation, result.metrics[name])
            for name, evaluation in sorted(result.evaluations.items())
        ],
        "history": result.history,
        "config": config.model_dump(mode="json"),
        "provenance": result.provenance,
        "comparison": [],
        "notes": [],
        "extra_figures": [],
    }
    return ReportInputs(**{**fields, **more})
