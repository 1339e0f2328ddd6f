"""`cliffordstf bench`: measure."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cliffordstf.bench.jobs.sweep import read_results, write_result
from cliffordstf.bench.speed.against.comparison import MODELS, AgainstSettings, compare
from cliffordstf.bench.speed.against.comparison_table import against_table
from cliffordstf.bench.speed.engines.lammps_study import LammpsSettings, lammps_table, run_lammps_study
from cliffordstf.bench.speed.speed_study import BOXES, FLAGSHIP, SpeedSettings, run_speed
from cliffordstf.bench.speed.speed_tables import number_text, training_order
from cliffordstf.bench.tables.all_tables import all_tables
from cliffordstf.bench.tables.diverged_runs import finished
from cliffordstf.bench.tables.figures import draw
from cliffordstf.bench.tables.formatting import rounds_done
from cliffordstf.bench.tables.paper_tables import paper_tables
from cliffordstf.bench.tables.table import html_page
from cliffordstf.errors import ConfigError
from cliffordstf.host.files import write_text
from cliffordstf.options.duration import parse_duration
from cliffordstf.options.text import names_in

bench_app = typer.Typer(no_args_is_help=True)

Results = Annotated[Path, typer.Option(help="Folder of the result files.")]


@bench_app.callback()
def bench() -> None:
    """Measure speed and accuracy."""


@bench_app.command()
def speed(
    quick: Annotated[
        bool, typer.Option("--quick", help="--budget 3min, boxes up to 10^4 atoms: within eight minutes in all.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the results to this file.")] = None,
    no_peers: Annotated[bool, typer.Option("--no-peers", help="Leave other packages out.")] = False,
    all_boxes: Annotated[bool, typer.Option("--all-boxes", help="With --quick: also the box of 10^5 atoms.")] = False,
    repetitions: Annotated[int | None, typer.Option(min=3, help="Rounds of interleaved measurements.")] = None,
    models: Annotated[
        str | None, typer.Option(help="Time only these presets or peers, separated by commas: default,mace-l1,painn.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Time for all rounds, e.g. 3min; who does not fit is left out.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Checkout of another commit: time its code and this one in turn, nothing else.")
    ] = None,
) -> None:
    """Time our models and the installed peers side by side: inference, training, latency, boxes, roofline."""
    if no_peers and models is not None:
        raise ConfigError("--no-peers has no meaning beside --models; name only the models that are to be timed.")
    base = SpeedSettings.quick() if quick else SpeedSettings()
    if against is not None:
        if no_peers or budget is not None:
            raise ConfigError("--against compares two codes alone; leave --no-peers and --budget out.")
        chosen = AgainstSettings(
            models=MODELS if models is None else names_in(models),
            boxes=BOXES if all_boxes else base.boxes,
            repetitions=repetitions or base.repetitions,
            limit=base.limit,
            turn=base.turn,
        )
        _compare(against, chosen, json_file)
        return
    settings = replace(
        base,
        repetitions=repetitions or base.repetitions,
        with_peers=not no_peers,
        boxes=BOXES if all_boxes else base.boxes,
        budget=base.budget if budget is None else _seconds(budget),
        models=None if models is None else names_in(models),
    )
    console = Console()
    results = run_speed(settings, lambda text: console.print(text, highlight=False))
    _write(results, json_file)
    console.print(speed_table(results))
    if json_file is not None:
        console.print(f"written to {json_file}")


@bench_app.command()
def lammps(
    model: Annotated[str, typer.Option(help="Preset of the default profile; untrained.")] = "default",
    sizes: Annotated[str, typer.Option(help="Atoms of boxes of copper, separated by commas.")] = "1000,10000,100000",
    ranks: Annotated[str, typer.Option(help="Numbers of MPI processes, separated by commas.")] = "1,2",
    repetitions: Annotated[int, typer.Option(min=3, help="Rounds of interleaved measurements.")] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the results to this file.")] = None,
) -> None:
    """Time dynamics with LAMMPS and ASE side by side: a molecule, boxes, several ranks, potentials of LAMMPS."""
    settings = LammpsSettings(model, _counts("--sizes", sizes), _counts("--ranks", ranks), repetitions)
    console = Console()
    results = run_lammps_study(settings, lambda text: console.print(text, highlight=False))
    _write(results, json_file)
    console.print(lammps_table(results).rich())


def _counts(option: str, text: str) -> tuple[int, ...]:
    if not all(name.isdigit() and int(name) for name in names_in(text)):
        raise ConfigError(f"{option} {text} must be whole numbers separated by commas, for example 1,2.")
    return tuple(int(name) for name in names_in(text))


def _compare(checkout: Path, settings: AgainstSettings, json_file: Path | None) -> None:
    """Time this code and that of a checkout, and print the ratios."""
    console = Console()
    results = compare(checkout, settings, lambda text: console.print(text, highlight=False))
    _write(results, json_file)
    console.print(against_table(results).rich())
    if json_file is not None:
        console.print(f"written to {json_file}")


def _write(results: dict[str, Any], file: Path | None) -> None:
    """Write a result file, whole or not at all, if one was asked for."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_result(file, results)


def _seconds(budget: str) -> float:
    try:
        seconds = float(parse_duration(budget))
    except ValueError as error:
        raise ConfigError(f"--budget: {error}.") from None
    if seconds <= 0:
        raise ConfigError(f"--budget {budget} leaves no time; write 90s, 20min or 1.5h.")
    return seconds


@bench_app.command()
def table(
    results: Annotated[
        list[Path] | None, typer.Option(help="Folder of result files; repeat it for tables of several.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write here; the ending says how: .md, .tex or .html.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw learning curves and scans: a .png or .svg file.")] = None,
    paper_layout: Annotated[
        bool, typer.Option("--paper-layout", help="The paper's tables as it lays them out.")
    ] = False,
) -> None:
    """Print the tables of what was measured."""
    console = Console()
    folders = results or [Path("results/rmd17")]
    found = []
    for folder in folders:
        if not (own := read_results(folder)):
            raise ConfigError(
                f"{folder} holds no results; run 'cliffordstf bench rmd17' or 'bench speed --json' first."
            )
        found += own
    tables = paper_tables(found) if paper_layout else all_tables(found)
    if not tables:
        raise ConfigError("the paper has no table of such results; leave out --paper-layout.")
    for item in tables:
        console.print(item.rich())
    if figure is not None:
        console.print(f"drawn to {figure}" if draw(finished(found), figure) else "these results hold nothing to draw")
    if out is None:
        return
    written = {".md": "markdown", ".tex": "latex", ".html": "html"}.get(out.suffix)
    if written is None:
        raise ConfigError(f"--out {out} must end in .md, .tex or .html.")
    text = "\n".join(getattr(item, written)() for item in tables)
    if written == "html":
        text = html_page(text)
    write_text(out, text)
    console.print(f"written to {out}")


def speed_table(results: dict[str, Any]) -> Table:
    """Contenders from fast to slow, with times relative to our model of degree 3, or to the first that was named."""
    rows = sorted(results["rows"], key=training_order)
    ours = next((row for row in rows if row["name"] == FLAGSHIP), results["rows"][0])
    times = f"x {'ours' if ours['name'] == FLAGSHIP else ours['name']}"
    machine = results["machine"]
    table = Table(
        title=f"{results['system']}; {machine['processor']}, {machine['threads']} threads{rounds_done(results)}"
    )
    table.add_column("model")
    titles = ("parameters", "inference, ms", times, "training, ms", times, "one molecule, ms", "peak, MB")
    for title in titles:
        table.add_column(title, justify="right")
    for row in rows:
        peak = row["training_peak_mb"]
        table.add_row(
            row["name"],
            f"{row['parameters']:,}",
            number_text(row["inference_ms"]),
            number_text(_over(row["inference_ms"], ours["inference_ms"]), 2),
            number_text(row["training_ms"]),
            number_text(_over(row["training_ms"], ours["training_ms"]), 2),
            number_text(row["latency_ms"], 1),
            number_text(peak),
        )
    return table


def _over(value: float | None, other: float | None) -> float | None:
    """A ratio; None where one of the two was not measured."""
    return None if value is None or other is None else value / other
