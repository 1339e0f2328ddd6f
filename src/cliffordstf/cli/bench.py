"""`cliffordstf bench`: measure."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cliffordstf.bench.cells import Sweep, read_results
from cliffordstf.bench.published import RMD17_MOLECULES
from cliffordstf.bench.rmd17 import rmd17_cell, rmd17_table
from cliffordstf.bench.speed import BOXES, SpeedSettings, run_speed
from cliffordstf.bench.speed_tables import speed_tables
from cliffordstf.cli.train import Screen
from cliffordstf.errors import ConfigError
from cliffordstf.files import write_atomically

bench_app = typer.Typer(no_args_is_help=True)


@bench_app.callback()
def bench() -> None:
    """Measure speed and accuracy."""


@bench_app.command()
def speed(
    quick: Annotated[bool, typer.Option("--quick", help="Within eight minutes; boxes up to 10^4 atoms.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the results to this file.")] = None,
    no_peers: Annotated[bool, typer.Option("--no-peers", help="Leave other packages out.")] = False,
    all_boxes: Annotated[bool, typer.Option("--all-boxes", help="With --quick: also the box of 10^5 atoms.")] = False,
    repetitions: Annotated[int | None, typer.Option(min=3, help="Rounds of interleaved measurements.")] = None,
) -> None:
    """Time our models and the installed peers side by side: inference, training, latency, boxes, roofline."""
    base = SpeedSettings.quick() if quick else SpeedSettings()
    settings = replace(base, repetitions=repetitions or base.repetitions, with_peers=not no_peers)
    if all_boxes:
        settings = replace(settings, boxes=BOXES)
    console = Console()
    results = run_speed(settings, lambda text: console.print(text, highlight=False))
    if json_file is not None:
        text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"

        def write(path: Path) -> None:
            path.write_text(text, encoding="utf-8")

        write_atomically(json_file, write)
    console.print(speed_table(results))
    if json_file is not None:
        console.print(f"written to {json_file}")


@bench_app.command()
def rmd17(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Options of the runs as key=value, e.g. model.lmax=3; name the recipe.")
    ] = None,
    data: Annotated[Path, typer.Option(help="Folder of the rMD17 archive.")] = Path("data/rmd17"),
    molecules: Annotated[str, typer.Option(help="Names separated by commas, or 'all'.")] = "all",
    train: Annotated[int, typer.Option(help="Training frames: 950, 900 or 50.")] = 950,
    budget: Annotated[str, typer.Option(help="Training time of each run.")] = "20min",
    seeds: Annotated[str, typer.Option(help="Seeds separated by commas.")] = "0",
    recipe: Annotated[str, typer.Option(help="What the table calls these runs.")] = "default",
    results: Annotated[Path, typer.Option(help="Folder of the result files.")] = Path("results/rmd17"),
    work: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/rmd17"),
) -> None:
    """Train on the official splits of rMD17 and print the table; what is done is skipped, what was stopped goes on."""
    console = Console()
    if overrides and recipe == "default":
        raise ConfigError("runs with options of their own need a name: add --recipe NAME.")
    if not all(seed.strip().isdigit() for seed in seeds.split(",")):
        raise ConfigError(f"--seeds {seeds} must be whole numbers separated by commas, for example 0,1,2.")
    names = RMD17_MOLECULES if molecules == "all" else tuple(name.strip() for name in molecules.split(","))
    cells = [
        rmd17_cell(data, name, train=train, budget=budget, seed=int(seed), overrides=overrides or (), label=recipe)
        for seed in seeds.split(",")
        for name in names
    ]
    screen = Screen(console, every=30.0)
    try:
        finished = Sweep(results, work).run(cells, lambda text: console.print(text, highlight=False), screen)
    finally:
        screen.close()
    console.print(rmd17_table(read_results(results), train).rich())
    if not finished:
        raise typer.Exit(143)


@bench_app.command()
def table(
    results: Annotated[Path, typer.Option(help="Folder of the result files.")] = Path("results/rmd17"),
    out: Annotated[Path | None, typer.Option(help="Write here; the ending says how: .md, .tex or .html.")] = None,
) -> None:
    """Print the tables of what was measured: of rMD17 runs, or of `bench speed`."""
    console = Console()
    found = read_results(results)
    if not found:
        raise ConfigError(f"{results} holds no results; run 'cliffordstf bench rmd17' or 'bench speed --json' first.")
    if "roofline" in found[0]:
        tables = speed_tables(found[0])
    else:
        tables = [rmd17_table(found, size) for size in sorted({result["train"] for result in found}, reverse=True)]
    for item in tables:
        console.print(item.rich())
    if out is None:
        return
    written = {".md": "markdown", ".tex": "latex", ".html": "html"}.get(out.suffix)
    if written is None:
        raise ConfigError(f"--out {out} must end in .md, .tex or .html.")
    text = "\n".join(getattr(item, written)() for item in tables)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    console.print(f"written to {out}")


def speed_table(results: dict[str, Any]) -> Table:
    """Contenders from fast to slow, with their time relative to the first of our models of degree 3."""
    rows = sorted(results["rows"], key=lambda row: row["training_ms"])
    ours = next(row for row in rows if row["name"] == "default lmax 3")
    table = Table(
        title=f"{results['system']}; {results['machine']['processor']}, {results['machine']['threads']} threads"
    )
    table.add_column("model")
    titles = ("parameters", "inference, ms", "x ours", "training, ms", "x ours", "one molecule, ms", "peak, MB")
    for title in titles:
        table.add_column(title, justify="right")
    for row in rows:
        peak = row["training_peak_mb"]
        table.add_row(
            row["name"],
            f"{row['parameters']:,}",
            f"{row['inference_ms']:.0f}",
            f"{row['inference_ms'] / ours['inference_ms']:.2f}",
            f"{row['training_ms']:.0f}",
            f"{row['training_ms'] / ours['training_ms']:.2f}",
            f"{row['latency_ms']:.1f}",
            "" if peak is None else f"{peak:.0f}",
        )
    return table
