"""Headline numbers, each beside the baseline, and the comparison of models."""

import math
import re
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal

import numpy as np

from cliffordstf.report.inputs import ReportSection
from cliffordstf.report.markup import NOT_FINITE, Cell, cosine_text, is_number, number_cell, significant, table
from cliffordstf.train.evaluation import Evaluation
from cliffordstf.train.metrics import compute_metrics


@dataclass(frozen=True)
class Measure:
    """One number of `compute_metrics`; `kind` tells how it is written and whether more or less is better."""

    name: str
    key: str
    unit: str
    kind: Literal["error", "cosine", "share"] = "error"

    def value(self, metrics: dict[str, Any]) -> float | None:
        """The number, NaN where predictions are not finite; None without labels."""
        found = metrics.get(self.key)
        if found is None or is_number(found):
            return found
        return math.nan

    def text(self, value: float | None) -> str:
        """The number as shown, without its unit."""
        if value is not None and not math.isfinite(value):
            return NOT_FINITE
        if self.kind == "cosine":
            return cosine_text(value)
        if self.kind == "share":
            return "–" if value is None else f"{100 * value:.1f}"
        return significant(value)

    def is_worse(self, metrics: dict[str, Any], baseline: dict[str, Any]) -> bool:
        """Whether the model is worse than the baseline."""
        value, other = self.value(metrics), self.value(baseline)
        if value is None or other is None:
            return False
        if self.kind == "cosine":
            return value <= other
        return value < other if self.kind == "share" else value > other


MEASURES = (
    Measure("Energy MAE", "energy_mae_mev", "meV"),
    Measure("Energy MAE per atom", "energy_mae_mev_per_atom", "meV/atom"),
    Measure("Energy RMSE", "energy_rmse_mev", "meV"),
    Measure("Energy RMSE per atom", "energy_rmse_mev_per_atom", "meV/atom"),
    Measure("Force MAE", "force_mae_mev_per_a", "meV/Å"),
    Measure("Force RMSE", "force_rmse_mev_per_a", "meV/Å"),
    Measure("Force cosine", "force_cosine", "", kind="cosine"),
    Measure("Stress MAE", "stress_mae_mev_per_a3", "meV/Å³"),
    Measure("Stress RMSE", "stress_rmse_mev_per_a3", "meV/Å³"),
    Measure("Energy within threshold", "energy_within_threshold", "%", kind="share"),
    Measure("Energy and forces within threshold", "energy_and_forces_within_threshold", "%", kind="share"),
)
_ON_CARDS = (
    "energy_mae_mev",
    "energy_mae_mev_per_atom",
    "force_mae_mev_per_a",
    "force_cosine",
    "stress_mae_mev_per_a3",
)


def baseline_measures(evaluation: Evaluation) -> dict[str, Any]:
    """The same measures of the baseline model; zero forces have no direction, so their cosine counts as 0."""
    baseline = replace(
        evaluation,
        energy=evaluation.baseline_energy,
        forces=np.zeros_like(evaluation.forces),
        stress=np.zeros_like(evaluation.stress),
    )
    with np.errstate(invalid="ignore"):  # Missing labels are NaN by agreement.
        return compute_metrics(baseline)


def cards(section: ReportSection) -> str:
    """The most important numbers of a section in large type."""
    shown = [measure for measure in MEASURES if measure.key in _ON_CARDS and measure.value(section.metrics) is not None]
    baseline = baseline_measures(section.evaluation)
    return '<div class="cards">' + "".join(_card(measure, section.metrics, baseline) for measure in shown) + "</div>"


def _card(measure: Measure, metrics: dict[str, Any], baseline: dict[str, Any]) -> str:
    value, other = measure.value(metrics), measure.value(baseline)
    worse = measure.is_worse(metrics, baseline) or not is_number(value)
    remark = ""
    if not is_number(value):
        remark = '<span class="bad">predictions that are not finite</span>'
    elif worse:
        remark = '<span class="bad">worse than the baseline</span>'
    elif measure.kind == "error" and value and other:
        remark = f"<span>{significant(other / value, 2)}× smaller</span>"
    unit = f" <small>{escape(measure.unit)}</small>" if measure.unit else ""
    counted = f'<p class="zero">{_unbroken_limit(cosine_atoms(metrics))}</p>' if measure.kind == "cosine" else ""
    return (
        f'<div class="card{" worse" if worse else ""}"><h3>{escape(measure.name)}</h3>'
        f'<p class="value">{escape(measure.text(value))}{unit}</p>'
        f'<p class="zero"><span>baseline {escape(measure.text(other))}</span>{remark}</p>{counted}</div>'
    )


def _unbroken_limit(text: str) -> str:
    """Markup of `cosine_atoms` in which a line never ends within the limit."""
    return re.sub(r"\|F\|.*", r'<span class="unit">\g<0></span>', escape(text))


def cosine_atoms(metrics: dict[str, Any]) -> str:
    """Which atoms count in the force cosine, as in `8,950 of 9,000 atoms: true |F| ≥ 0.01 eV/Å`."""
    used, left_out = metrics.get("force_cosine_atoms"), metrics.get("force_cosine_left_out")
    limit = (metrics.get("thresholds") or {}).get("cosine_min_force_ev_per_a")
    if used is None or left_out is None or limit is None:
        return ""
    return f"{used:,} of {used + left_out:,} atoms: true |F| ≥ {limit:g} eV/Å"


_KNOWN_COLUMNS = {
    "name": "model",
    "energy_mae_mev": "energy MAE (meV)",
    "energy_mae_mev_per_atom": "energy MAE (meV/atom)",
    "force_mae_mev_per_a": "force MAE (meV/Å)",
    "force_cosine": "force cosine",
    "stress_mae_mev_per_a3": "stress MAE (meV/Å³)",
    "stress_mae_gpa": "stress MAE (GPa)",
    "parameters": "parameters",
}


def comparison_table(rows: list[dict[str, Any]]) -> str:
    """Models side by side; the best number of each error column is emphasised."""
    present = dict.fromkeys(key for row in rows for key in row)
    columns = [key for key in _KNOWN_COLUMNS if key in present] + [key for key in present if key not in _KNOWN_COLUMNS]
    best = {key: _best(rows, key) for key in columns}
    body = [[_comparison_cell(key, row.get(key), best[key]) for key in columns] for row in rows]
    return table([_KNOWN_COLUMNS.get(key, key.replace("_", " ")) for key in columns], body, sortable=True)


def _best(rows: list[dict[str, Any]], key: str) -> float | None:
    values = [float(row[key]) for row in rows if is_number(row.get(key))]
    if len(values) < 2 or not ("_mae_" in key or key == "force_cosine"):
        return None
    return max(values) if key == "force_cosine" else min(values)


def _comparison_cell(key: str, value: Any, best: float | None) -> Cell:
    if not is_number(value):
        return Cell("–" if value is None or isinstance(value, float) else str(value))
    text = cosine_text(value) if key == "force_cosine" else f"{value:,}" if isinstance(value, int) else None
    return number_cell(value, text, strong=best is not None and float(value) == best)
