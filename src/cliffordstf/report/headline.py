"""Headline numbers, each beside the baseline, and tables of measures."""

from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal

import numpy as np

from cliffordstf.report.inputs import ReportSection
from cliffordstf.report.markup import Cell, cosine_text, is_number, number_cell, significant, table
from cliffordstf.report.worst import unusable_predictions
from cliffordstf.train.evaluation import Evaluation
from cliffordstf.train.metrics import compute_metrics


@dataclass(frozen=True)
class Measure:
    """One number of `compute_metrics`; `kind` says how it reads and whether more or less is better."""

    name: str
    key: str
    unit: str
    kind: Literal["error", "cosine", "share"] = "error"

    def value(self, metrics: dict[str, Any]) -> float | None:
        """The number, if there is one."""
        return float(metrics[self.key]) if is_number(metrics.get(self.key)) else None

    def text(self, value: float | None) -> str:
        """The number as shown, without its unit."""
        if self.kind == "cosine":
            return cosine_text(value)
        if self.kind == "share":
            return "–" if value is None else f"{100 * value:.1f}"
        return significant(value)

    def is_worse(self, metrics: dict[str, Any], baseline_metrics: dict[str, Any]) -> bool:
        """Whether the model knows less than nothing."""
        value, zero = self.value(metrics), self.value(baseline_metrics)
        if value is None or zero is None:
            return False
        if self.kind == "cosine":
            return value <= zero
        return value < zero if self.kind == "share" else value > zero


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
    zero = replace(
        evaluation,
        energy=evaluation.baseline_energy,
        forces=np.zeros_like(evaluation.forces),
        stress=np.zeros_like(evaluation.stress),
    )
    with np.errstate(invalid="ignore"):  # Missing labels are NaN by agreement.
        return compute_metrics(zero)


def cards(section: ReportSection) -> str:
    """The most important numbers of a section in large type."""
    shown = [measure for measure in MEASURES if measure.key in _ON_CARDS and measure.value(section.metrics) is not None]
    zero = baseline_measures(section.evaluation)
    return '<div class="cards">' + "".join(_card(measure, section.metrics, zero) for measure in shown) + "</div>"


def _card(measure: Measure, metrics: dict[str, Any], baseline_metrics: dict[str, Any]) -> str:
    value, zero = measure.value(metrics), measure.value(baseline_metrics)
    worse = measure.is_worse(metrics, baseline_metrics)
    remark = ""
    if worse:
        remark = '<span class="bad">worse than the baseline</span>'
    elif measure.kind == "error" and value and zero:
        remark = f"<span>{significant(zero / value, 2)}× smaller</span>"
    unit = f" <small>{escape(measure.unit)}</small>" if measure.unit else ""
    return (
        f'<div class="card{" worse" if worse else ""}"><h3>{escape(measure.name)}</h3>'
        f'<p class="value">{escape(measure.text(value))}{unit}</p>'
        f'<p class="zero"><span>baseline {escape(measure.text(zero))}</span>{remark}</p></div>'
    )


def measures_table(section: ReportSection) -> str:
    """Every measure of a section that has a value, beside the baseline."""
    rows = []
    baseline_metrics = baseline_measures(section.evaluation)
    for measure in MEASURES:
        value, zero = measure.value(section.metrics), measure.value(baseline_metrics)
        if value is None:
            continue
        rows.append(
            [
                Cell(measure.name),
                number_cell(value, measure.text(value), strong=True),
                number_cell(zero, measure.text(zero)),
                Cell(measure.unit),
            ]
        )
    if not rows:
        return ""
    limits = section.metrics.get("thresholds") or {}
    caption = ""
    if is_number(limits.get("energy_ev")) and is_number(limits.get("force_ev_per_a")):
        caption = (
            f"Thresholds: energy of a structure within {limits['energy_ev'] * 1000:g} meV, each force component within "
            f"{limits['force_ev_per_a'] * 1000:g} meV/Å."
        )
    return table(["measure", "model", "baseline", "unit"], rows, caption=caption)


def warnings(section: ReportSection) -> str:
    """Call-outs for what must not be overlooked."""
    messages = []
    baseline_metrics = baseline_measures(section.evaluation)
    worse = [measure.name for measure in MEASURES if measure.is_worse(section.metrics, baseline_metrics)]
    if worse:
        messages.append(
            f"Worse than the baseline, which predicts a constant energy and zero forces: {', '.join(worse)}."
        )
    energies, forces = unusable_predictions(section.evaluation)
    if energies or forces:
        messages.append(
            f"Not finite, so left out of all numbers here: {energies:,} predicted energies and the predicted forces of "
            f"{forces:,} atoms, all of which have labels."
        )
    return "".join(f'<p class="warning" role="note">{escape(message)}</p>' for message in messages)


_KNOWN_COLUMNS = {
    "name": "model",
    "energy_mae_mev": "energy MAE (meV)",
    "energy_mae_mev_per_atom": "energy MAE (meV/atom)",
    "force_mae_mev_per_a": "force MAE (meV/Å)",
    "force_cosine": "force cosine",
    "stress_mae_mev_per_a3": "stress MAE (meV/Å³)",
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
