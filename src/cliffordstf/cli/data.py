"""`cliffordstf data`: look at data files; `data fetch` is in cli/fetch.py."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cliffordstf.data.inspection import Inspection, inspect_frames
from cliffordstf.data.readers import read_frames
from cliffordstf.data.units import LabelKeys, Units

data_app = typer.Typer(no_args_is_help=True)
SHOWN = 10


@data_app.callback()
def data() -> None:
    """Fetch data sets and look at data files."""


@data_app.command()
def inspect(
    file: Annotated[str, typer.Argument(help="A data file, a folder of them, or a pattern with * in quotes.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the findings to this file.")] = None,
    units_energy: Annotated[
        str, typer.Option(help="eV, meV, kcal/mol, kJ/mol, Hartree, or 1 for plain numbers.")
    ] = "auto",
    units_length: Annotated[str, typer.Option(help="Å, bohr or nm.")] = "auto",
    units_stress: Annotated[str, typer.Option(help="eV/Å³, GPa or kbar; with a minus for VASP's sign.")] = "auto",
    key_energy: Annotated[str | None, typer.Option(help="Key of the energy, if it is not found.")] = None,
    key_forces: Annotated[str | None, typer.Option(help="Key of the forces.")] = None,
    key_stress: Annotated[str | None, typer.Option(help="Key of the stress.")] = None,
    key_virial: Annotated[str | None, typer.Option(help="Key of the virial, instead of a stress.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Read at most this many structures.")] = None,
) -> None:
    """Show what a file holds: format, units, elements, labels, duplicates, outliers, and the baseline."""
    frames, source = read_frames(
        file,
        Units(energy=units_energy, length=units_length, stress=units_stress),
        LabelKeys(energy=key_energy, forces=key_forces, stress=key_stress, virial=key_virial),
        limit,
    )
    inspection = inspect_frames(frames, source)
    console = Console()
    for table in tables(inspection):
        console.print(table)
    _print_list(console, "warning", source.warnings, "yellow")
    _print_list(console, "duplicate", [" = ".join(names) for names in inspection.duplicates], "yellow")
    _print_list(console, "outlier", inspection.outliers, "yellow")
    if json_file is not None:
        json_file.write_text(json.dumps(inspection.as_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        console.print(f"written to {json_file}")


def tables(inspection: Inspection) -> list[Table]:
    """The findings as tables to print."""
    return [_overview(inspection), _labels(inspection), _baseline(inspection)]


def _overview(inspection: Inspection) -> Table:
    source = inspection.source
    table = Table(title=escape(str(source.path)), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    compositions = [f"{formula} x {count:,}" for formula, count in inspection.compositions.items()]
    shortest = inspection.shortest_distance
    rows = {
        "format": source.format,
        "structures": f"{inspection.structures:,}",
        "atoms": f"{inspection.atoms:,} (per structure {inspection.atoms_min} to {inspection.atoms_max}, "
        f"median {inspection.atoms_median:g})",
        "elements": ", ".join(f"{name} {count:,}" for name, count in inspection.elements.items()),
        "compositions": ", ".join(compositions[:SHOWN]) + _and_more(len(compositions), "compositions"),
        "periodicity": ", ".join(f"{name} x {count:,}" for name, count in inspection.periodicity.items()),
        "shortest distance": f"{shortest.distance:.3f} Å, {shortest.pair}, in {shortest.structure}"
        if shortest
        else "-",
        "duplicates": f"{sum(len(names) - 1 for names in inspection.duplicates):,}",
        "outliers": f"{len(inspection.outliers):,}",
    }
    for name, value in rows.items():
        table.add_row(name, escape(value))
    return table


def _labels(inspection: Inspection) -> Table:
    source, found = inspection.source, inspection.statistics
    table = Table(title="Labels")
    table.add_column("", no_wrap=True)
    for label in inspection.coverage:
        table.add_column(label, justify="right")
    coverage = inspection.coverage.values()
    table.add_row("key", *(escape(source.keys[label] or "-") for label in inspection.coverage))
    table.add_row(
        "unit in the file", *(source.units[label] if source.keys[label] else "-" for label in inspection.coverage)
    )
    table.add_row("structures with it", *(f"{count.complete:,}" for count in coverage))
    table.add_row("only in part", *(f"{count.partial:,}" for count in coverage))
    table.add_row("without", *(f"{count.missing:,}" for count in coverage))
    table.add_section()
    table.add_row("statistics of", "energy per atom", "|F|", "|component|")
    table.add_row("unit", "eV", "eV/Å", "eV/Å³")
    means = (found.energy_per_atom_mean, found.force_norm_mean, found.stress_component_mean_abs)
    table.add_row("mean", *map(_number, means))
    table.add_row("standard deviation", _number(found.energy_per_atom_std), "-", "-")
    table.add_row("rms of components", "-", _number(found.force_component_rms), "-")
    table.add_row("largest", "-", _number(found.force_norm_max), _number(found.stress_component_max_abs))
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _baseline(inspection: Inspection) -> Table:
    zero = inspection.baseline
    table = Table(
        title="Baseline: errors of a model that knows nothing", caption=f"constant energy: {zero.energy_constant}"
    )
    for name in ("energy MAE, meV", "energy MAE, meV/atom", "force MAE, meV/Å"):
        table.add_column(name, justify="right")
    values = (zero.energy_mae_mev, zero.energy_mae_mev_per_atom, zero.force_mae_mev_per_a)
    table.add_row(*("-" if value is None else f"{value:.1f}" for value in values))
    return table


def _and_more(count: int, what: str) -> str:
    return f" and {count - SHOWN:,} more {what}" if count > SHOWN else ""


def _print_list(console: Console, title: str, lines: list[str] | tuple[str, ...], colour: str) -> None:
    for line in lines[:SHOWN]:
        console.print(f"[{colour}]{title}:[/] {escape(line)}", highlight=False, soft_wrap=True)
    if len(lines) > SHOWN:
        console.print(f"{_and_more(len(lines), title + 's').strip()}", highlight=False)
