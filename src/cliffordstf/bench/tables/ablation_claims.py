"""What the paper concludes from its ablation, asked of our runs: errors of variants with a thing over those without."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from cliffordstf.bench.literature.paper_values import paper_models, paper_value
from cliffordstf.bench.literature.published_values import RMD17_MOLECULES
from cliffordstf.bench.tables.formatting import Length, circumstances, length, length_text
from cliffordstf.bench.tables.table import Table


@dataclass(frozen=True)
class Comparison:
    """Two groups of variants.

    Attributes:
        about: What the first has and the second has not.
        having, lacking: Variants; a group counts by the mean of their errors.
    """

    about: str
    having: tuple[str, ...]
    lacking: tuple[str, ...]


VANILLA, OUTPUT_ONLY = "paper/clifford", "paper/output-only"
SCAFFOLD = tuple(name for name in paper_models("ablation") if name not in (VANILLA, OUTPUT_ONLY))
"""The paper's three tiers; the last has tracks of degree two or their edge feature in all layers."""

COMPARISONS = (
    Comparison("the scaffold, beside vanilla Clifford", SCAFFOLD, (VANILLA,)),
    Comparison("the scaffold, beside STF at the output only", SCAFFOLD, (OUTPUT_ONLY,)),
    Comparison("STF at the output only, beside vanilla Clifford", (OUTPUT_ONLY,), (VANILLA,)),
    Comparison("cross-track coupling (full)", ("paper/full",), ("paper/full-no-cross",)),
    Comparison("cross-track coupling (stf2)", ("paper/stf2",), ("paper/stf2-no-cross",)),
    Comparison("Hodge duals in the forces (stf2)", ("paper/stf2",), ("paper/stf2-no-hodge",)),
    Comparison("Hodge duals in the forces (no STF)", ("paper/hodge-only",), ("paper/scaffold",)),
    Comparison("degree 3", ("paper/stf2-stf3",), ("paper/stf2",)),
    Comparison("learned routing (stf2+stf3)", ("paper/full",), ("paper/stf2-stf3",)),
    Comparison("learned routing (stf2)", ("paper/stf2-learned",), ("paper/stf2",)),
    Comparison("static routing (stf2)", ("paper/stf2-static",), ("paper/stf2",)),
)

_KINDS = (("forces", "force_mae_mev_per_a"), ("energy", "energy_mae_mev"))


def claims_table(results: Iterable[dict[str, Any]], each: Length) -> Table:
    """Ratios of errors, the paper's over its four molecules and ours by molecule; below one the thing helps."""
    chosen = [result for result in results if length(result) == each]
    molecules = [name for name in RMD17_MOLECULES if any(r["molecule"] == name for r in chosen)]
    columns = [(molecule, kind, metric) for molecule in molecules for kind, metric in _KINDS]
    table = Table(
        f"The ablation's claims, {length_text(each)} each: errors of variants that have something over errors of those "
        "that lack it, so that it helps below 1; mean over seeds (lowest to highest seed); paper: mean of four "
        f"molecules; {circumstances(chosen)}",
        ["what", *(f"{kind}, paper" for kind, _ in _KINDS), *(f"{kind}, {name}" for name, kind, _ in columns)],
    )
    for comparison in COMPARISONS:
        ours = [_ratios([r for r in chosen if r["molecule"] == name], comparison, key) for name, _, key in columns]
        if any(ours):
            printed = (_paper_ratio(comparison, kind) for kind, _ in _KINDS)
            table.add(comparison.about, *printed, *map(_said, ours))
    return table


def _ratios(results: Sequence[dict[str, Any]], comparison: Comparison, metric: str) -> list[float]:
    """One for each seed that all variants were run with."""
    errors = {(r["model"], r["seed"]): float(r["metrics"][metric]) for r in results}
    ratios = []
    for seed in sorted({seed for _, seed in errors}):
        groups = [[errors.get((name, seed)) for name in group] for group in (comparison.having, comparison.lacking)]
        known = [[value for value in group if value is not None] for group in groups]
        if [len(group) for group in known] == [len(group) for group in groups]:
            ratios.append(mean(known[0]) / mean(known[1]))
    return ratios


def _said(ratios: Sequence[float]) -> str:
    if len(ratios) < 2:
        return "".join(f"{ratio:.2f}" for ratio in ratios)
    return f"{mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _paper_ratio(comparison: Comparison, kind: str) -> str:
    having, lacking = (
        mean(found.value for name in group if (found := paper_value("ablation", name, kind)) is not None)
        for group in (comparison.having, comparison.lacking)
    )
    return f"{having / lacking:.2f}"
