"""`cliffordstf eval`: errors of a model on labelled structures, a row for each set."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from cliffordstf.cli.options import AddModel
from cliffordstf.cli.reading import (
    MODEL,
    print_sources,
    print_warnings,
    read_options,
    split_arguments,
    with_reading_options,
)
from cliffordstf.cli.tables import metrics_table, rows_table
from cliffordstf.data.baseline import Baseline
from cliffordstf.data.dataset import BatchPlan, Dataset
from cliffordstf.data.load import Loaded, load_frames
from cliffordstf.data.options import ReadOptions
from cliffordstf.data.references import split_isolated
from cliffordstf.data.structure import symbol
from cliffordstf.errors import ConfigError, DataError, UnknownElementError
from cliffordstf.host.files import write_json
from cliffordstf.model.ensemble import Ensemble
from cliffordstf.model.file import ModelInfo
from cliffordstf.model.potential import Potential
from cliffordstf.model.shipped import open_ensemble
from cliffordstf.report import ReportInputs, ReportSection, write_report
from cliffordstf.train.evaluate import evaluate
from cliffordstf.train.evaluation import Evaluation
from cliffordstf.train.metrics import compute_metrics
from cliffordstf.train.provenance import describe_run, file_digest


@with_reading_options
def eval_command(
    model: Annotated[str, typer.Argument(help=MODEL)],
    files: Annotated[
        list[str],
        typer.Argument(
            help="Labelled structures: every file, folder or pattern is a set; NAME=FILE names it; data.…=VALUE sets "
            "an option of reading.",
            metavar="FILES... [data.KEY=VALUE...]",
        ),
    ],
    reading: dict[str, Any] | None = None,
    add_model: AddModel = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all measures to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the HTML report into this folder.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Structures evaluated together.")] = 32,
    max_atoms: Annotated[int, typer.Option(min=1, help="Most atoms evaluated together.")] = 2000,
) -> None:
    """Evaluate a model on labelled structures, beside a constant energy per element and zero forces."""
    console = Console()
    names, overrides = split_named(files)
    options = read_options(reading or {}, overrides)
    potential, info = open_ensemble([model, *(add_model or [])])
    sets = {name: _read_set(path, options, potential, console) for name, path in names.items()}
    baseline = Baseline.stored(info.provenance)
    found = {}
    for name, data in sets.items():
        with console.status(f"evaluating {name}: {len(data.frames)} structures"):
            found[name] = _evaluate(potential, data, BatchPlan(batch_size, max_atoms), baseline)
    rows = {name: compute_metrics(evaluation) for name, evaluation in found.items()}
    _print(console, model, rows, baseline is not None)
    provenance = _provenance([model, *(add_model or [])], info, sets)
    if json_file is not None:
        values = next(iter(rows.values())) if len(rows) == 1 else {}
        write_json(json_file, {**values, "sets": rows, "provenance": provenance})
        console.print(f"written to {json_file}", soft_wrap=True)
    if html is not None:
        inputs = ReportInputs(
            title=f"{Path(model).stem} on {', '.join(rows)}",
            sections=[ReportSection(name, found[name], rows[name]) for name in rows],
            history=[],
            config=info.config,
            provenance=provenance,
            comparison=[],
            notes=[],
            extra_figures=[],
            warnings=list(dict.fromkeys(warning for data in sets.values() for warning in data.warnings)),
        )
        console.print(f"report {write_report(inputs, html)}", soft_wrap=True)


def split_named(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Sets by name, and options of reading; `600K=test.xyz` names a set, others have the name of their file.

    Raises:
        ConfigError: No set is left.
    """
    paths, candidates = split_arguments(arguments)
    overrides = [item for item in candidates if item.startswith("data.")]
    named = [item.partition("=")[::2] for item in candidates if item not in overrides]
    # Names may begin with a digit, which options never do.
    for path in list(paths):
        name, equals, file = path.partition("=")
        if equals and not Path(path).exists() and name and "/" not in name:
            paths.remove(path)
            named.append((name, file))
    stems = Counter(_stem(path) for path in paths)
    found = {_stem(path) if stems[_stem(path)] == 1 else path: path for path in paths}
    for name, file in named:
        if name in found:
            raise ConfigError(f"two sets are called '{name}'; name them differently, as in NAME=FILE.")
        found[name] = file
    if not found:
        raise ConfigError("give at least one file with labelled structures.")
    return found, overrides


def _stem(path: str) -> str:
    return Path(path).name.split(".")[0] or path


@dataclass(frozen=True)
class _Set:
    """Structures to evaluate on, without isolated atoms, and what was read."""

    frames: list[Any]
    loaded: Loaded
    warnings: list[str]


def _read_set(path: str, options: ReadOptions, potential: Potential | Ensemble, console: Console) -> _Set:
    loaded = load_frames(path, options)
    isolated, frames = split_isolated(loaded.frames)
    warnings = list(loaded.warnings)
    if isolated and frames:
        names = ", ".join(dict.fromkeys(symbol(int(frame.structure.numbers[0])) for frame in isolated))
        warnings.append(f"{len(isolated)} isolated atoms ({names}) of {path} are left out.")
    frames = frames or isolated
    if not any(frame.has_energy or frame.has_forces or frame.has_stress for frame in frames):
        raise DataError(f"no structure of {path} carries a label; name the labels with --key-energy and --key-forces.")
    for frame in frames:
        unknown = sorted(set(frame.structure.numbers.tolist()) - set(potential.elements))
        if unknown:
            raise UnknownElementError(
                f"{frame.structure.name} of {path} holds {', '.join(map(symbol, unknown))}, which the model was not "
                f"trained for (it has {', '.join(map(symbol, potential.elements[:20]))}); leave such structures out or "
                "use a model with these elements."
            )
    print_sources(console.print, loaded.sources)
    print_warnings(console, warnings)
    return _Set(frames, replace(loaded, frames=[]), warnings)


def _evaluate(potential: Potential | Ensemble, data: _Set, plan: BatchPlan, baseline: Baseline | None) -> Evaluation:
    return evaluate(potential, Dataset(data.frames, potential.cutoff), plan, baseline)


def _print(console: Console, model: str, rows: dict[str, dict[str, Any]], is_stored: bool) -> None:
    for name, metrics in rows.items():
        if len(rows) == 1:
            console.print(metrics_table(metrics, f"{model} on {name}, {metrics['n_structures']} structures"))
        if len(metrics["per_config_type"]) > 1:
            title = f"{model} by label" if len(rows) == 1 else f"{model} on {name}, by label"
            console.print(rows_table(metrics["per_config_type"], title, "label"))
    if len(rows) > 1:
        console.print(rows_table(rows, model, "set"))
    fitted = "its training set" if is_stored else "the set it stands beside"
    console.print(f"baseline: a constant energy per element, fitted to {fitted}, and zero forces", highlight=False)


def _provenance(models: list[str], info: ModelInfo, sets: dict[str, _Set]) -> dict[str, Any]:
    data = [
        {"set": name, "file": source.path.name, "sha256": file_digest(source.path), "units": source.units}
        for name, item in sets.items()
        for source in item.loaded.sources
    ]
    return {
        **describe_run(),
        "model": models[0] if len(models) == 1 else models,
        "data": data,
        "model_provenance": info.provenance,
    }
