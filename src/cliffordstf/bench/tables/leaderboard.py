"""Many models on the same data, seeds and budget: rows are models, as in the paper's tables."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from cliffordstf.bench.literature.paper_values import paper_value
from cliffordstf.bench.literature.published_values import RMD17_MOLECULES, published_value
from cliffordstf.bench.tables.formatting import (
    Length,
    baseline_errors,
    circumstances,
    errors,
    length,
    length_text,
    passes,
    step_rate,
)
from cliffordstf.bench.tables.table import Table


def leaderboard(results: Iterable[dict[str, Any]], train: int, each: Length, protocol: str) -> Table:
    """RMD17 at one budget: ours and the paper's numbers, by force error on the molecule that most models have."""
    chosen = [r for r in results if (r["train"], length(r), r["protocol"]) == (train, each, protocol)]
    molecules = [name for name in RMD17_MOLECULES if any(r["molecule"] == name for r in chosen)]
    heads = ["model", "parameters"]
    for molecule in molecules:
        heads += [molecule, "steps/s", "passes", f"{molecule}, paper", f"{molecule}, published"]
    table = Table(
        f"rMD17, {train} training frames, {length_text(each)} each, protocol {protocol}: test energy MAE, meV / force "
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
    baseline = ["baseline", ""]
    for molecule in molecules:
        metrics = next(r["metrics"] for r in chosen if r["molecule"] == molecule)
        baseline += [baseline_errors(metrics), "", "", "", ""]
    table.add(*baseline)
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
