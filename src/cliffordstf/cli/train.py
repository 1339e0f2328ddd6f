"""`cliffordstf train`: from files of structures to a model file, its errors and a report."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from cliffordstf.cli.reading import split_arguments, with_reading_options
from cliffordstf.cli.screen import Printer, Screen
from cliffordstf.cli.tables import metrics_table, rows_table
from cliffordstf.errors import ConfigError
from cliffordstf.report import ReportInputs, ReportSection, write_report, write_summary_png
from cliffordstf.train import parallel
from cliffordstf.train.config import TrainConfig, load_config, to_yaml
from cliffordstf.train.explain import commented_config
from cliffordstf.train.run import RunResult, resume, train
from cliffordstf.train.run_folder import CONFIG, free_directory, has_content, replace_run, run_name


@with_reading_options
def train_command(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="Data files, folders or patterns (extxyz, npz, db, …), or a YAML config; and options as key=value, "
            "e.g. model.lmax=3 batch_size=4.",
            metavar="FILES... [KEY=VALUE...]",
        ),
    ] = None,
    reading: dict[str, Any] | None = None,
    valid: Annotated[list[str] | None, typer.Option(help="Validation set: a fraction, a count, or files.")] = None,
    test: Annotated[list[str] | None, typer.Option(help="Test set: a fraction, a count, or files; repeatable.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; by default a new one, runs/NAME.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder of --out.")] = False,
    budget: Annotated[str | None, typer.Option(help="Training time, e.g. 20min.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Number of epochs.")] = None,
    resume_from: Annotated[Path | None, typer.Option("--resume", help="Continue the run in this folder.")] = None,
    accept_changed_data: Annotated[
        bool, typer.Option("--accept-changed-data", help="Continue although the data are not those of the run.")
    ] = False,
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print every option with its value, say what was chosen, and stop.")
    ] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of the config and stop.")] = False,
) -> None:
    """Train a potential on structures with energies, forces, stresses."""
    console = Console()
    if schema:
        typer.echo(json.dumps(TrainConfig.model_json_schema(), indent=1, ensure_ascii=False))
        return
    if resume_from is not None:
        if sources or out is not None or test or valid or overwrite or reading:
            raise ConfigError("--resume goes on with a run as it was; only --budget and --epochs can be changed.")
        device = load_config(resume_from / CONFIG, []).device
        _with_processes(
            device,
            console,
            lambda screen: resume(resume_from, screen, None, accept_changed_data, budget=budget, epochs=epochs),
        )
        return
    if accept_changed_data:
        raise ConfigError("--accept-changed-data is about a run that is continued; give --resume FOLDER.")
    files, overrides = split_arguments(sources or [])
    if show_config and not files:
        config = _config(["structures.extxyz"], overrides, reading or {}, budget, epochs, valid, test)
        typer.echo(to_yaml(config), nl=False)
        return
    config = _config(files, overrides, reading or {}, budget, epochs, valid, test)
    if show_config:
        typer.echo(commented_config(config), nl=False)
        return
    directory = _directory(config, out, overwrite)
    _with_processes(config.device, console, lambda screen: train(config, directory(), screen, overwrite=overwrite))


def _directory(config: TrainConfig, out: Path | None, overwrite: bool) -> Callable[[], Path]:
    """The run's folder, refused at once where it is somebody else's."""
    if out is None:
        if overwrite:
            raise ConfigError("--overwrite needs to be told which run to replace: give --out FOLDER.")
        return lambda: parallel.share(free_directory(Path("runs") / run_name(config.data.train)))
    if out.exists() and not overwrite and not _is_empty(out):
        raise ConfigError(
            f"{out} exists; go on with that run (train --resume {out}), replace it (--overwrite), or name another "
            "folder."
        )
    if overwrite:
        replace_run(out, check_only=True)
    return lambda: out


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not has_content(path)


def _with_processes(device: str, console: Console, run: Callable[[Screen], RunResult | None]) -> None:
    parallel.start(device)
    screen = Screen(console)
    try:
        try:
            result = run(screen)
        finally:
            screen.close()
        if parallel.is_main():
            conclude(screen.print, result, screen.directory)
    finally:
        screen.finish()
        parallel.stop()


def _config(
    files: list[str],
    overrides: list[str],
    reading: dict[str, Any],
    budget: str | None,
    epochs: int | None,
    valid: list[str] | None,
    test: list[str] | None,
) -> TrainConfig:
    if not files:
        raise ConfigError("give a data file or a YAML config to train on, or --resume FOLDER to continue a run.")
    configs = [file for file in files if file.endswith((".yaml", ".yml"))]
    data = [file for file in files if file not in configs]
    if len(configs) > 1:
        raise ConfigError(f"{' and '.join(configs)} are both configs; a run has one.")
    if configs and Path(configs[0]).exists() and not Path(configs[0]).is_file():
        raise ConfigError(f"{configs[0]} is a folder, a pipe or a device, not a config; give a YAML file.")
    options: dict[str, Any] = {"data": dict(reading)}
    if data:
        options["data"]["train"] = data[0] if len(data) == 1 else data
    for name, values in (("valid", valid), ("test", test)):
        if values:
            options["data"][name] = _held_out(values)
    options |= {} if budget is None else {"budget": budget}
    options |= {} if epochs is None else {"epochs": epochs}
    return load_config(Path(configs[0]) if configs else None, overrides, over=options)


def _held_out(values: list[str]) -> float | str | list[str]:
    """A number, or files."""
    if len(values) == 1:
        return float(values[0]) if _is_number(values[0]) and not Path(values[0]).exists() else values[0]
    return values


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def conclude(show: Printer, result: RunResult | None, directory: Path | None) -> None:
    """Print errors and files of a run, write its report."""
    if result is None:
        show(f"stopped; continue with: cliffordstf train --resume {directory}", soft_wrap=True)
        raise typer.Exit(143)
    for name, metrics in result.metrics.items():
        show(metrics_table(metrics, f"{name} set, {metrics['n_structures']} structures"))
        if len(metrics["per_config_type"]) > 1:
            show(rows_table(metrics["per_config_type"], f"{name} set by label", "label"))
    inputs = report_inputs(result)
    page = write_report(inputs, result.directory / "report")
    picture = write_summary_png(inputs, result.directory / "summary.png")
    for name, path in (("model", result.directory / "model.safetensors"), ("figure", picture), ("report", page)):
        show(f"{name:8s} {path}", soft_wrap=True, highlight=False)
    worse = worse_than_baseline(result.metrics)
    if worse:
        show(f"[bold red]{worse}[/]", soft_wrap=True)


def worse_than_baseline(metrics: dict[str, dict[str, Any]]) -> str:
    """A sentence about a model whose errors exceed those of a constant energy and zero forces; else nothing."""
    for name, values in metrics.items():
        for quantity, key in (("forces", "force_mae_mev_per_a"), ("energies", "energy_mae_mev_per_atom")):
            error, baseline = values.get(key), values.get(f"baseline_{key}")
            if error is not None and baseline is not None and not error <= baseline:
                return (
                    f"the {quantity} of the {name} set are worse than the baseline, so the model has not learned them; "
                    "look for wrong labels or units with 'cliffordstf data inspect', or train longer."
                )
    return ""


def report_inputs(result: RunResult, **more: Any) -> ReportInputs:
    """What the report shows of a finished run."""
    config = load_config(result.directory / CONFIG, [])
    fields: dict[str, Any] = {
        "title": f"cliffordstf: {run_name(config.data.train)}",
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
        "warnings": result.warnings,
    }
    return ReportInputs(**{**fields, **more})
