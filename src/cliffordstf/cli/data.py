"""`cliffordstf data`: look at data files; `data fetch` is in cli/fetch.py."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cliffordstf.cli.reading import (
    FILES,
    print_sources,
    print_warnings,
    read,
    read_options,
    split_arguments,
    with_reading_options,
)
from cliffordstf.data.inspection import Inspection, inspect_frames
from cliffordstf.errors import ConfigError
from cliffordstf.host.files import write_json

data_app = typer.Typer(no_args_is_help=True)
SHOWN = 10


@data_app.callback()
def data() -> None:
    """Fetch data sets and look at data files."""


@data_app.command()
@with_reading_options
def inspect(
    files: Annotated[list[str], typer.Argument(help=FILES, metavar="FILES... [data.KEY=VALUE...]")],
    reading: dict[str, Any] | None = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the findings to this file.")] = None,
) -> None:
    """Show what files hold: units, elements, labels, kinds of structures, duplicates, outliers, and the baseline."""
    names, overrides = split_arguments(files)
    if not names:
        raise ConfigError("give a data file, a folder or a pattern to look at.")
    console = Console()
    loaded = read(names, read_options(reading or {}, overrides), None)
    inspection = inspect_frames(loaded.frames, loaded.source)
    print_sources(console.print, loaded.sources)
    for table in tables(inspection):
        console.print(table)
    print_warnings(console, loaded.warnings)
    _print_list(console, "duplicate", [str(group) for group in inspection.duplicates])
    _print_list(console, "outlier", inspection.outliers)
    if json_file is not None:
        write_json(json_file, inspection.as_json())
        console.print(f"written to {json_file}")


def tables(inspection: Inspection) -> list[Table]:
    """The findings as tables to print."""
    kinds = [_config_types(inspection)] if inspection.config_types else []
    return [_overview(inspection), *kinds, _labels(inspection), _baseline(inspection)]


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
        "isolated atoms": ", ".join(f"{name} {energy:.4f} eV" for name, energy in inspection.isolated_atoms.items())
        or "-",
        "duplicates": _duplicates(inspection),
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


def _duplicates(inspection: Inspection) -> str:
    extra = sum(len(group.structures) - 1 for group in inspection.duplicates)
    differ = sum(
        group.energy_difference is not None or group.force_difference is not None for group in inspection.duplicates
    )
    return f"{extra:,}" + (f" ({differ:,} groups with different labels)" if differ else "")


def _config_types(inspection: Inspection) -> Table:
    table = Table(title="Structures by label")
    table.add_column("label", overflow="fold")
    table.add_column("structures", justify="right")
    for name, count in inspection.config_types.items():
        table.add_row(escape(name), f"{count:,}")
    return table


def _baseline(inspection: Inspection) -> Table:
    baseline = inspection.baseline
    table = Table(
        title="Baseline: constant energy per element, zero forces", caption=f"energy: {baseline.energy_constant}"
    )
    for name in ("energy MAE, meV", "energy MAE, meV/atom", "force MAE, meV/Å", "stress MAE, GPa"):
        table.add_column(name, justify="right")
    values = (
        (baseline.energy_mae_mev, 1),
        (baseline.energy_mae_mev_per_atom, 1),
        (baseline.force_mae_mev_per_a, 1),
        (baseline.stress_mae_gpa, 3),
    )
    table.add_row(*("-" if value is None else f"{value:.{digits}f}" for value, digits in values))
    return table


def _and_more(count: int, what: str) -> str:
    return f" and {count - SHOWN:,} more {what}" if count > SHOWN else ""


def _print_list(console: Console, title: str, lines: Sequence[str]) -> None:
    print_warnings(console, lines[:SHOWN], title)
    if len(lines) > SHOWN:
        console.print(f"{_and_more(len(lines), title + 's').strip()}", highlight=False)
