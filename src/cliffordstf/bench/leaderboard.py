"""Many models on the same data, seeds and budget: rows are models, as in the paper's tables."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from cliffordstf.bench.numbers import (
    Length,
    baseline_errors,
    circumstances,
    errors,
    length,
    passes,
    said_length,
    spread,
    step_rate,
)
from cliffordstf.bench.paper import Printed, paper_models, paper_value
from cliffordstf.bench.published import RMD17_MOLECULES, published_value
from cliffordstf.bench.table import Table
from cliffordstf.model.presets import own_preset


def leaderboard(results: Iterable[dict[str, Any]], train: int, each: Length, protocol: str) -> Table:
    """RMD17 at one budget: ours and the paper's numbers, by force error on the molecule that most models have."""
    chosen = [r for r in results if (r["train"], length(r), r["protocol"]) == (train, each, protocol)]
    molecules = [name for name in RMD17_MOLECULES if any(r["molecule"] == name for r in chosen)]
    heads = ["model", "parameters"]
    for molecule in molecules:
        heads += [molecule, "steps/s", "passes", f"{molecule}, paper", f"{molecule}, published"]
    table = Table(
        f"rMD17, {train} training frames, {said_length(each)} each, protocol {protocol}: test energy MAE, meV / force "
        "MAE, meV/Å (force cosine); published: the best of the family, of its authors' size and length; "
        f"{circumstances(chosen)}",
        heads,
    )
    counted = Counter(r["molecule"] for r in chosen)
    common = max(molecules, key=lambda molecule: counted[molecule])
    recipes = dict.fromkeys(r["recipe"] for r in sorted(chosen, key=lambda r: _forces(r, common)))
    for recipe in recipes:
        mine = [r for r in chosen if r["recipe"] == recipe]
        cells = [recipe, f"{mine[0]['parameters']:,}"]
        for molecule in molecules:
            cells += _measured([r for r in mine if r["molecule"] == molecule])
            cells += [_paper(mine[0]["model"], molecule), _published(mine[0]["model"], molecule, train)]
        table.add(*cells)
    zero = ["baseline", ""]
    for molecule in molecules:
        metrics = next(r["metrics"] for r in chosen if r["molecule"] == molecule)
        zero += [baseline_errors(metrics), "", "", "", ""]
    table.add(*zero)
    return table


def _measured(runs: list[dict[str, Any]]) -> list[str]:
    """Errors, updates a second and passes of the runs on one molecule."""
    if not runs:
        return ["", "", ""]
    return [
        errors([r["metrics"] for r in runs]),
        step_rate(runs),
        passes(runs),
    ]


def _forces(result: dict[str, Any], molecule: str) -> float:
    """Sort key: models without that molecule come last."""
    return float(result["metrics"]["force_mae_mev_per_a"]) + (1e6 if result["molecule"] != molecule else 0.0)


def _paper(model: str, molecule: str) -> str:
    names = ("rmd17_energy", "rmd17_forces", "rmd17_cosine")
    energy, forces, cosine = (paper_value(name, model, molecule) for name in names)
    if energy is None or forces is None or cosine is None:
        return ""
    return f"{energy.value:.0f} / {forces.value:.0f} ({cosine.value:.3f})"


def _published(model: str, molecule: str, train: int) -> str:
    energy, forces = (published_value(table, model, molecule, train) for table in ("rmd17_energy", "rmd17_forces"))
    if energy is None and forces is None:
        return ""
    return " / ".join("-" if value is None else f"{value:g}" for value in (energy, forces))


ABLATION = tuple(paper_models("ablation"))
"""The twelve variants, in the paper's order."""


def ablation_table(results: Iterable[dict[str, Any]], each: Length) -> Table:
    """The paper's ablation: what each variant has, its number there (in real units), and ours by molecule.

    Args:
        results: Of the ablation.
        each: Which of them, see `numbers.length`.
    """
    chosen = [r for r in results if length(r) == each]
    molecules = [name for name in RMD17_MOLECULES if any(r["molecule"] == name for r in chosen)]
    table = Table(
        f"Ablation, rMD17, {said_length(each)} each, protocol sound, direct forces: test energy MAE, meV / force MAE, "
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
    zeros = [next(r["metrics"] for r in chosen if r["molecule"] == molecule) for molecule in molecules]
    table.add("baseline", "", "", "", "", "", "", *(text for zero in zeros for text in (baseline_errors(zero), "")))
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
