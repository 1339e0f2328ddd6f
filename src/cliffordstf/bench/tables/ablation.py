"""The paper's ablation: what each of its twelve variants has, the paper's numbers, and ours."""

from collections.abc import Iterable
from typing import Any

from cliffordstf.bench.literature.paper_values import Printed, paper_models, paper_value
from cliffordstf.bench.literature.published_values import RMD17_MOLECULES
from cliffordstf.bench.tables.formatting import (
    Length,
    baseline_errors,
    circumstances,
    errors,
    length,
    length_text,
    passes,
    spread,
)
from cliffordstf.bench.tables.table import Table
from cliffordstf.model.presets import own_preset

ABLATION = tuple(paper_models("ablation"))
"""The twelve variants, in the paper's order."""


def ablation_table(results: Iterable[dict[str, Any]], each: Length) -> Table:
    """The paper's ablation: what each variant has, its number there (in real units), and ours by molecule.

    Args:
        results: Of the ablation.
        each: Which of them, see `formatting.length`.
    """
    chosen = [r for r in results if length(r) == each]
    molecules = [name for name in RMD17_MOLECULES if any(r["molecule"] == name for r in chosen)]
    table = Table(
        f"Ablation, rMD17, {length_text(each)} each, protocol sound, direct forces: test energy MAE, meV / force MAE, "
        f"meV/Å (force cosine); paper: mean of four molecules; {circumstances(chosen)}",
        ["variant", "STF", "Hodge", "cross", "routing", "parameters", "paper", *_with_price(molecules, each)],
    )
    for variant in ABLATION:
        mine = [r for r in chosen if r["model"] == variant]
        if not mine:
            continue
        cells = []
        for molecule in molecules:
            runs = [r for r in mine if r["molecule"] == molecule]
            cells += [errors([r["metrics"] for r in runs]), _price(runs, each)]
        table.add(variant, *variant_flags(variant), f"{mine[0]['parameters']:,}", _printed(variant), *cells)
    baselines = [next(r["metrics"] for r in chosen if r["molecule"] == molecule) for molecule in molecules]
    table.add(
        "baseline",
        "",
        "",
        "",
        "",
        "",
        "",
        *(text for baseline in baselines for text in (baseline_errors(baseline), "")),
    )
    return table


def _with_price(molecules: list[str], each: Length) -> list[str]:
    return [head for molecule in molecules for head in (molecule, "passes" if each[0] else "minutes")]


def _price(runs: list[dict[str, Any]], each: Length) -> str:
    """What is not the same for all: passes of runs of equal time, training minutes of those of equally many updates."""
    if not runs:
        return ""
    return passes(runs) if each[0] else spread([r["seconds"] / 60 for r in runs], 1)


def variant_flags(variant: str) -> list[str]:
    """What a variant of the ablation has: STF tracks, Hodge duals, cross-track coupling, routing."""
    config: Any = own_preset(variant, elements=(1,))
    degrees = "+".join(f"stf{degree}" for degree in config.stf_degrees) or "none"
    where = " (output)" if config.stf_at == "output" else ""
    return [degrees + where, _on(config.hodge_forces), _on(config.cross_track), config.routing]


def _on(value: bool) -> str:
    return "on" if value else "off"


def _printed(variant: str) -> str:
    energy, forces, cosine = (paper_value("ablation", variant, name) for name in ("energy", "forces", "cosine"))
    return f"{_whole(energy)} / {_whole(forces)} ({'' if cosine is None else f'{cosine.value:.3f}'})"


def _whole(value: Printed | None) -> str:
    return "" if value is None else f"{value.value:.0f}"
