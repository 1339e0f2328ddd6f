"""Learning curves, from whatever columns the history holds."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from cliffordstf.data.structure import FloatArray
from cliffordstf.report.style import ACCENT, MUTED, SECOND, THIRD, log_axis, show_message

History = list[dict[str, float]]


@dataclass(frozen=True)
class Panel:
    """One learning curve.

    Attributes:
        title: What it shows, for captions.
        axis: Label of its axis, with the unit.
        suffix: Columns whose names end so belong to it; what comes before names the curve (`train`, `valid`).
        baseline_metric: Metric that holds the same error of the baseline model.
        one_minus: Show the distance from 1, as fits cosines.
    """

    title: str
    axis: str
    suffix: str
    baseline_metric: str | None = None
    one_minus: bool = False


PANELS = (
    Panel("Loss", "loss", "loss"),
    Panel("Energy error", "energy MAE (meV)", "energy_mae_mev", "baseline_energy_mae_mev"),
    Panel("Energy error", "energy MAE (meV/atom)", "energy_mae_mev_per_atom", "baseline_energy_mae_mev_per_atom"),
    Panel("Force error", "force MAE (meV/Å)", "force_mae_mev_per_a", "baseline_force_mae_mev_per_a"),
    Panel("Force direction", "1 − force cosine", "force_cosine", one_minus=True),
    Panel("Stress error", "stress MAE (meV/Å³)", "stress_mae_mev_per_a3", "baseline_stress_mae_mev_per_a3"),
    Panel("Learning rate", "learning rate", "learning_rate"),
)


def panels_with_data(history: History) -> list[Panel]:
    """Panels for which the history holds at least one number that a logarithmic axis can show."""
    return [panel for panel in PANELS if _curves(history, panel)]


def _curves(history: History, panel: Panel) -> dict[str, FloatArray]:
    names = dict.fromkeys(
        key for row in history for key in row if key == panel.suffix or key.endswith("_" + panel.suffix)
    )
    curves = {}
    for name in names:
        values = np.array([number(row.get(name)) for row in history])
        values = np.maximum(1.0 - values, 1e-9) if panel.one_minus else values
        if (np.isfinite(values) & (values > 0)).any():
            label = name.removesuffix(panel.suffix).strip("_").replace("_", " ")
            curves[label or panel.title.lower()] = values
    return curves


def number(value: Any) -> float:
    """A float, NaN where there is none."""
    try:
        result = float(value)
    except (TypeError, ValueError):
        return math.nan
    return result if math.isfinite(result) else math.nan


def draw_curve(axes: Axes, history: History, panel: Panel, zero: float | None = None) -> None:
    """One panel; `zero` is the error of the baseline model in the panel's unit."""
    curves = _curves(history, panel)
    if not curves:
        show_message(axes, "no training history")
        return
    epochs = np.array([number(row.get("epoch", index + 1)) for index, row in enumerate(history)])
    shown = np.concatenate(list(curves.values()))
    zero = zero if zero is not None and zero > 0 else None
    log_axis(axes, "y", shown if zero is None else np.append(shown, zero))
    for (label, values), colour in zip(curves.items(), _colours(len(curves)), strict=True):
        drawn = np.isfinite(values) & np.isfinite(epochs) & (values > 0)
        marker = "o" if drawn.sum() < 30 else None
        axes.plot(epochs[drawn], values[drawn], color=colour, label=label, marker=marker, markersize=3)
    if zero is not None:
        axes.axhline(zero, color=SECOND, linestyle="--", linewidth=1.2, label="baseline")
    if len(curves) > 1 or zero is not None:
        axes.legend(fontsize=8)
    axes.set_xlabel("epoch")
    axes.set_ylabel(panel.axis)
    axes.locator_params(axis="x", nbins=6, integer=True)


def _colours(count: int) -> list[str]:
    # Orange stays free for the baseline.
    return ([ACCENT, THIRD, MUTED, "#8a5fc2", "#b8a021"] * (count // 5 + 1))[:count]
