"""`cliffordstf presets`: what models there are, and what is in one of them."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cliffordstf.model.build import build
from cliffordstf.model.config import AnyConfig, DefaultConfig, ModelConfig
from cliffordstf.model.family import available, family_names
from cliffordstf.model.presets import PRESETS, own_preset, preset
from cliffordstf.verify.parameters import RELEASE, count, count_by_block


def presets(name: Annotated[str | None, typer.Argument(help="Show this preset in full.")] = None) -> None:
    """List the presets, or show one: its options and its parameters by block."""
    console = Console()
    if name is None:
        console.print(_overview())
    else:
        console.print(_options(name, preset(name)))
        problem = available(name) if name in family_names() else None
        if problem:
            console.print(problem, soft_wrap=True)
        else:
            console.print(_blocks(name))


def _overview() -> Table:
    table = Table(
        title="Presets (parameters for elements 1 to 100)",
        caption="paper/…: direct forces, cutoff 6 Å. default/…: conservative forces, cutoff 5 Å. "
        f"Peers, where they are installed: {', '.join(family_names())}.",
    )
    table.add_column("preset", no_wrap=True)
    table.add_column("grades and STF", no_wrap=True)
    for column in ("width", "layers", "parameters"):
        table.add_column(column, justify="right", no_wrap=True)
    for name in PRESETS:
        config = own_preset(name)
        table.add_row(
            name,
            _tracks(config),
            str(config.channels),
            str(config.layers),
            f"{count(build(name)):,}",
        )
    return table


def _tracks(config: ModelConfig) -> str:
    if isinstance(config, DefaultConfig):
        return f"0-{3 if config.pseudoscalar else 2}" + "".join(f" stf{l}" for l in range(2, config.lmax + 1))
    tensors = "".join(f" stf{degree}" for degree in config.stf_degrees)
    return f"0-{config.max_grade}{tensors}" + (" (output)" if config.stf_at == "output" else "")


def _options(name: str, config: AnyConfig) -> Table:
    table = Table(title=f"{name}: options")
    table.add_column("option", no_wrap=True)
    table.add_column("value", no_wrap=True)
    table.add_column("meaning")
    for option, field in type(config).model_fields.items():
        value = getattr(config, option)
        shown = f"{len(value)} elements" if option == "elements" else str(value)
        table.add_row(option, shown, field.description or "")
    return table


def _blocks(name: str) -> Table:
    counts = count_by_block(build(name).model)
    release = RELEASE.get(name, {})
    table = Table(title=f"{name}: parameters by block")
    table.add_column("block", no_wrap=True)
    for column in ("ours", "public release", "difference") if release else ("parameters",):
        table.add_column(column, justify="right")
    for block in [*counts, *(block for block in release if block not in counts)]:
        table.add_row(block, *_cells(counts.get(block, 0), release.get(block, 0) if release else None))
    table.add_section()
    table.add_row("total", *_cells(sum(counts.values()), sum(release.values()) if release else None))
    return table


def _cells(ours: int, theirs: int | None) -> list[str]:
    return [f"{ours:,}"] if theirs is None else [f"{ours:,}", f"{theirs:,}", f"{ours - theirs:+,}"]
