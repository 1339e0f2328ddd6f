"""Plots of force errors; each function draws on axes that it is given."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from cliffordstf.data.structure import FloatArray
from cliffordstf.report.markup import is_number, significant
from cliffordstf.report.style import ACCENT, GRID, INK, SECOND, log_axis, show_message
from cliffordstf.train.evaluation import Evaluation
from cliffordstf.train.metrics import force_cosines, has_direction

MOST_ELEMENTS = 36


def force_angles(evaluation: Evaluation) -> FloatArray:
    """Angles between predicted and true force, degrees, of atoms whose true force has a direction."""
    cosines = force_cosines(evaluation)[has_direction(evaluation)]
    return np.degrees(np.arccos(np.clip(cosines[np.isfinite(cosines)], -1.0, 1.0)))


def draw_angles(axes: Axes, evaluation: Evaluation) -> None:
    """Histogram of the angle between predicted and true force, beside that of random directions."""
    angles = force_angles(evaluation)
    if not len(angles):
        show_message(axes, "no force labels")
        return
    smallest = max(1e-3, min(0.1, float(np.quantile(angles, 0.01))))
    edges = np.geomspace(smallest, 180.0, 46)
    counts, _ = np.histogram(np.clip(angles, smallest, 180.0), bins=edges)
    log_axis(axes, "x", edges)
    axes.set_xlim(edges[0], edges[-1])
    axes.stairs(counts / len(angles) * 100, edges, fill=True, color=ACCENT, alpha=0.75)
    # Between random directions the share of angles up to t is (1 - cos t) / 2.
    chance = np.diff(-np.cos(np.radians(edges)) / 2) * 100
    axes.stairs(chance, edges, color=SECOND, linewidth=1.2, linestyle="--", label="random directions")
    median = float(np.median(angles))
    axes.axvline(median, color=INK, linewidth=1.0, label=f"median {significant(median)}°")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=8)
    axes.set_ylim(0, max(counts.max() / len(angles) * 100, chance.max()) * 1.05)
    axes.set_xlabel("angle between predicted and true force (degrees)")
    axes.set_ylabel("atoms (%)")


def shown_elements(per_element: dict[str, dict[str, Any]]) -> list[str]:
    """Elements with a force error, the largest first, as many as fit in a figure."""
    known = [name for name, row in per_element.items() if is_number(row.get("force_mae_mev_per_a"))]
    return sorted(known, key=lambda name: -float(per_element[name]["force_mae_mev_per_a"]))[:MOST_ELEMENTS]


def draw_elements(axes: Axes, per_element: dict[str, dict[str, Any]]) -> None:
    """Force error of each element beside that of the baseline."""
    names = shown_elements(per_element)
    if not names:
        show_message(axes, "no force labels")
        return
    error = _column([per_element[name] for name in names], "force_mae_mev_per_a")
    zero = _column([per_element[name] for name in names], "baseline_force_mae_mev_per_a")
    places = np.arange(len(names))[::-1]
    log_axis(axes, "x", np.concatenate([error, zero]))
    axes.hlines(places, error, zero, color=GRID, linewidth=3)
    axes.scatter(error, places, s=34, color=ACCENT, zorder=3, label="model")
    axes.scatter(zero, places, s=34, facecolors="none", edgecolors=SECOND, linewidths=1.4, zorder=3, label="baseline")
    axes.set_yticks(places, names)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.grid(visible=False, axis="y")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=8)
    axes.set_xlabel("force MAE (meV/Å)")


def draw_error_by_magnitude(axes: Axes, bins: list[dict[str, Any]]) -> None:
    """Force error in bins of the true force."""
    error = _column(bins, "force_mae_mev_per_a")
    finite = np.isfinite(error)
    if not finite.any():
        show_message(axes, "no force labels")
        return
    places = np.arange(len(bins))
    axes.bar(places[finite], error[finite], width=0.68, color=ACCENT, alpha=0.85)
    for place in places[finite]:
        value = float(error[place])
        axes.annotate(significant(value), (place, value), (0, 3), textcoords="offset points", ha="center")
    _mark_unusable(axes, bins, "force_mae_mev_per_a")
    axes.set_ylim(0, float(error[finite].max()) * 1.15 or 1.0)
    axes.set_ylabel("force MAE (meV/Å)")
    _magnitude_axis(axes, bins, places)


def draw_cosine_by_magnitude(axes: Axes, bins: list[dict[str, Any]]) -> None:
    """Distance of the force cosine from 1 in those bins of the true force that have one."""
    bins = [row for row in bins if row.get("force_cosine") is not None]
    cosine = _column(bins, "force_cosine")
    known = np.isfinite(cosine)
    if not known.any():
        show_message(axes, "no force labels")
        return
    places = np.arange(len(bins))
    distance = np.maximum(1.0 - cosine, 1e-7)
    log_axis(axes, "y", np.append(distance[known] * 1.8, distance[known]))
    axes.plot(places[known], distance[known], color=ACCENT, marker="o", markersize=6)
    for place in places[known]:
        axes.annotate(f"{cosine[place]:.4f}", (place, distance[place]), (5, 5), textcoords="offset points", ha="left")
    _mark_unusable(axes, bins, "force_cosine")
    axes.set_ylabel("1 − force cosine")
    _magnitude_axis(axes, bins, places)
    axes.set_xlim(-0.4, len(bins) - 0.2)


def _mark_unusable(axes: Axes, bins: list[dict[str, Any]], key: str) -> None:
    """Write NaN where predictions that are not finite spoil a bin."""
    for place, row in enumerate(bins):
        if row.get(key) is not None and not np.isfinite(row[key]):
            across = axes.get_xaxis_transform()
            axes.text(place, 0.03, "NaN", ha="center", va="bottom", color=SECOND, transform=across)


def _magnitude_axis(axes: Axes, bins: list[dict[str, Any]], places: NDArray[np.int64]) -> None:
    names = []
    for row in bins:
        low, high = row.get("from_ev_per_a"), row.get("to_ev_per_a")
        edges = f"≥ {low:g}" if high is None else f"{low:g}–{high:g}"
        names.append(f"{edges}\nn = {row.get('n_atoms', 0):,}")
    axes.set_xticks(places, names, fontsize=8)
    axes.set_xlim(-0.6, len(bins) - 0.4)
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("true |F| (eV/Å)")


def _column(rows: list[dict[str, Any]], key: str) -> FloatArray:
    return np.array([np.nan if row.get(key) is None else row[key] for row in rows], dtype=np.float64)
