"""Plots of an evaluation; each function draws on axes that it is given."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from cliffordstf.data.structure import FloatArray
from cliffordstf.report.markup import significant
from cliffordstf.report.style import ACCENT, GRID, INK, MUTED, SECOND, log_axis, say
from cliffordstf.train.evaluation import Evaluation
from cliffordstf.train.metrics import force_cosines

MEV = 1000.0
SCATTER_LIMIT = 1500
"""Beyond this many points a parity plot shows their density instead."""
DENSITY_BINS = 150
MOST_ELEMENTS = 36


def draw_energy_parity(axes: Axes, evaluation: Evaluation) -> None:
    """Energy per atom, relative to the mean of the labels."""
    atoms = evaluation.atoms_per_structure
    label, found, zero = (
        values / atoms for values in (evaluation.energy_label, evaluation.energy, evaluation.baseline_energy)
    )
    known = np.isfinite(label) & np.isfinite(found)
    if not known.any():
        say(axes, "no energy labels")
        return
    label, found, zero = label[known], found[known], zero[known]
    in_mev = float(np.ptp(label)) < 2.0
    scale, unit = (MEV, "meV/atom") if in_mev else (1.0, "eV/atom")
    centre = label.mean()
    baseline_error = np.abs(zero - label)[np.isfinite(zero)]
    _parity(axes, (label - centre) * scale, (found - centre) * scale)
    error = np.abs(found - label).mean()
    _corner(axes, error * MEV, baseline_error.mean() * MEV if len(baseline_error) else None, "meV/atom")
    axes.set_xlabel(f"reference energy − mean ({unit})")
    axes.set_ylabel(f"predicted energy − mean ({unit})")


def draw_force_parity(axes: Axes, evaluation: Evaluation) -> None:
    """Every component of every force."""
    label, found = evaluation.force_labels.ravel(), evaluation.forces.ravel()
    known = np.isfinite(label) & np.isfinite(found)
    if not known.any():
        say(axes, "no force labels")
        return
    label, found = label[known], found[known]
    _parity(axes, label, found)
    _corner(axes, np.abs(found - label).mean() * MEV, np.abs(label).mean() * MEV, "meV/Å")
    axes.set_xlabel("reference force component (eV/Å)")
    axes.set_ylabel("predicted (eV/Å)")


def draw_stress_parity(axes: Axes, evaluation: Evaluation) -> None:
    """Every component of every stress."""
    # All nine, like the measures: off-diagonal points coincide in pairs, and the error agrees with the table.
    label, found = evaluation.stress_labels.ravel() * MEV, evaluation.stress.ravel() * MEV
    known = np.isfinite(label) & np.isfinite(found)
    if not known.any():
        say(axes, "no stress labels")
        return
    label, found = label[known], found[known]
    _parity(axes, label, found)
    _corner(axes, np.abs(found - label).mean(), np.abs(label).mean(), "meV/Å³")
    axes.set_xlabel("reference stress component (meV/Å³)")
    axes.set_ylabel("predicted (meV/Å³)")


def _parity(axes: Axes, label: FloatArray, found: FloatArray) -> None:
    """Points, or their density, around the diagonal, in a square window that a few wild predictions cannot blow up."""
    everything = np.concatenate([label, found])
    span = float(np.ptp(label)) or float(np.ptp(everything)) or 1.0
    low = max(float(everything.min()), float(label.min()) - span) - 0.04 * span
    high = min(float(everything.max()), float(label.max()) + span) + 0.04 * span
    axes.axline((low, low), slope=1, color=MUTED, linewidth=0.8)
    if len(label) > SCATTER_LIMIT:
        _density(axes, label, found, low, high)
    else:
        axes.scatter(label, found, s=9, color=ACCENT, alpha=0.55, linewidths=0, rasterized=len(label) > 300)
    outside = int(((found < low) | (found > high)).sum())
    if outside:
        axes.text(0.98, 0.03, f"{outside} outside", ha="right", va="bottom", color=SECOND, transform=axes.transAxes)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_aspect("equal", adjustable="box")
    axes.locator_params(nbins=6)


def _density(axes: Axes, label: FloatArray, found: FloatArray, low: float, high: float) -> None:
    """How many points fall on each small square, as the opacity of one colour: it reads on light and dark pages."""
    counts, _, _ = np.histogram2d(label, found, bins=DENSITY_BINS, range=[[low, high], [low, high]])
    image = np.zeros((DENSITY_BINS, DENSITY_BINS, 4))
    image[..., :3] = to_rgb(ACCENT)
    strength = np.log1p(counts.T) / np.log1p(counts.max())
    image[..., 3] = np.where(counts.T > 0, 0.25 + 0.75 * strength, 0.0)
    axes.imshow(image, extent=(low, high, low, high), origin="lower", interpolation="none", zorder=2)


def _corner(axes: Axes, error: float, zero: float | None, unit: str) -> None:
    lines = [f"MAE {significant(error)} {unit}"]
    if zero is not None:
        lines.append(f"baseline {significant(zero)}")
    axes.text(0.03, 0.97, "\n".join(lines), ha="left", va="top", color=INK, transform=axes.transAxes, zorder=5)


def force_angles(evaluation: Evaluation) -> FloatArray:
    """Angles between predicted and true force, degrees, of atoms for which there is one."""
    cosines = force_cosines(evaluation)
    return np.degrees(np.arccos(np.clip(cosines[np.isfinite(cosines)], -1.0, 1.0)))


def draw_angles(axes: Axes, evaluation: Evaluation) -> None:
    """Histogram of the angle between predicted and true force, beside that of random directions."""
    angles = force_angles(evaluation)
    if not len(angles):
        say(axes, "no force labels")
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
    known = [name for name, row in per_element.items() if row.get("force_mae_mev_per_a") is not None]
    return sorted(known, key=lambda name: -float(per_element[name]["force_mae_mev_per_a"]))[:MOST_ELEMENTS]


def draw_elements(axes: Axes, per_element: dict[str, dict[str, Any]]) -> None:
    """Force error of each element beside that of predicting zero."""
    names = shown_elements(per_element)
    if not names:
        say(axes, "no force labels")
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
    if not np.isfinite(error).any():
        say(axes, "no force labels")
        return
    places = np.arange(len(bins))
    axes.bar(places, np.nan_to_num(error), width=0.68, color=ACCENT, alpha=0.85)
    for place, value in zip(places, error, strict=True):
        if np.isfinite(value):
            axes.annotate(significant(value), (place, value), (0, 3), textcoords="offset points", ha="center")
    axes.set_ylim(0, float(np.nanmax(error)) * 1.15 or 1.0)
    axes.set_ylabel("force MAE (meV/Å)")
    _magnitude_axis(axes, bins, places)


def draw_cosine_by_magnitude(axes: Axes, bins: list[dict[str, Any]]) -> None:
    """Distance of the force cosine from 1 in bins of the true force."""
    cosine = _column(bins, "force_cosine")
    known = np.isfinite(cosine)
    if not known.any():
        say(axes, "no force labels")
        return
    places = np.arange(len(bins))
    distance = np.maximum(1.0 - cosine, 1e-7)
    log_axis(axes, "y", np.append(distance[known] * 1.8, distance[known]))
    axes.plot(places[known], distance[known], color=ACCENT, marker="o", markersize=6)
    for place in places[known]:
        axes.annotate(f"{cosine[place]:.4f}", (place, distance[place]), (5, 5), textcoords="offset points", ha="left")
    axes.set_ylabel("1 − force cosine")
    _magnitude_axis(axes, bins, places)
    axes.set_xlim(-0.4, len(bins) - 0.2)


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
