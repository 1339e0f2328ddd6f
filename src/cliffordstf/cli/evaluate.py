"""`cliffordstf eval`: errors of a model on a file of labelled structures."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from cliffordstf.cli.tables import metrics_table
from cliffordstf.data.dataset import BatchPlan, Dataset
from cliffordstf.data.readers import read_frames
from cliffordstf.data.units import LabelKeys, Units
from cliffordstf.errors import DataError
from cliffordstf.model.shipped import open_model
from cliffordstf.provenance import describe_run, file_digest
from cliffordstf.report import ReportInputs, ReportSection, write_report
from cliffordstf.train.evaluate import evaluate
from cliffordstf.train.metrics import compute_metrics


def eval_command(
    model: Annotated[str, typer.Argument(help="Model file or name of a shipped model.")],
    data: Annotated[str, typer.Argument(help="File with labelled structures.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all measures to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the HTML report into this folder.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Structures evaluated together.")] = 32,
    max_atoms: Annotated[int, typer.Option(min=1, help="Most atoms evaluated together.")] = 2000,
    limit: Annotated[int | None, typer.Option(min=1, help="Use only the first structures.")] = None,
    units_energy: Annotated[str, typer.Option(help="Energy unit of the file, e.g. kcal/mol.")] = "auto",
    units_length: Annotated[str, typer.Option(help="Length unit of the file.")] = "auto",
    key_energy: Annotated[str | None, typer.Option(help="Name of the energy label.")] = None,
    key_forces: Annotated[str | None, typer.Option(help="Name of the force label.")] = None,
    key_stress: Annotated[str | None, typer.Option(help="Name of the stress label.")] = None,
) -> None:
    """Evaluate a model on labelled structures; the baseline is a constant energy per element and zero forces."""
    console = Console()
    potential, info = open_model(model)
    frames, source = read_frames(
        data,
        Units(energy=units_energy, length=units_length),
        LabelKeys(energy=key_energy, forces=key_forces, stress=key_stress),
        limit,
    )
    for warning in source.warnings:
        console.print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)
    if not any(frame.has_energy or frame.has_forces or frame.has_stress for frame in frames):
        raise DataError(f"no structure of {data} carries a label; name the labels with --key-energy and --key-forces.")
    dataset = Dataset(frames, potential.cutoff)
    with console.status(f"evaluating {len(frames)} structures"):
        evaluation = evaluate(potential, dataset, BatchPlan(batch_size, max_atoms))
    metrics = compute_metrics(evaluation)
    console.print(metrics_table(metrics, f"{model} on {Path(data).name}, {len(frames)} structures"))
    provenance = {
        **describe_run(),
        "model": str(model),
        "data": {"file": Path(data).name, "sha256": file_digest(Path(data)), "units": source.units},
        "model_provenance": info.provenance,
    }
    if json_file is not None:
        _write_json(json_file, {**metrics, "provenance": provenance})
        console.print(f"written to {json_file}")
    if html is not None:
        inputs = ReportInputs(
            title=f"{Path(model).stem} on {Path(data).name}",
            sections=[ReportSection(Path(data).name, evaluation, metrics)],
            history=[],
            config=info.config,
            provenance=provenance,
            comparison=[],
            notes=[],
            extra_figures=[],
        )
        console.print(f"report {write_report(inputs, html)}")


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
