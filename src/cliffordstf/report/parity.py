"""Parity plots of energies, forces and stress; each function draws on axes that it is given."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from cliffordstf.data.structure import FloatArray
from cliffordstf.report.energies import shown_energies
from cliffordstf.report.markup import significant
from cliffordstf.report.style import ACCENT, INK, MUTED, SECOND, show_message
from cliffordstf.train.evaluation import Evaluation

MEV = 1000.0
SCATTER_LIMIT = 1500
"""Beyond this many points a parity plot shows their density instead."""
DENSITY_BINS = 150


def draw_energy_parity(axes: Axes, evaluation: Evaluation) -> None:
    """Energy per atom, without isolated atoms, a fit per element or the mean."""
    shown = shown_energies(evaluation)
    if shown is None:
        show_message(axes, "no energy labels")
        return
    _parity(axes, shown.label, shown.found)
    atoms = evaluation.atoms_per_structure
    error = np.abs(evaluation.energy - evaluation.energy_label) / atoms * MEV
    baseline = np.abs(evaluation.baseline_energy - evaluation.energy_label) / atoms * MEV
    used = np.isfinite(error)
    with_baseline = baseline[used & np.isfinite(baseline)]
    lines = _error_lines(error[used].mean(), with_baseline.mean() if len(with_baseline) else None, "meV/atom")
    if shown.mean is not None:
        lines.append(f"mean {shown.mean:,.3f} eV/atom".replace("-", "−"))
    _corner(axes, lines)
    axes.set_xlabel(f"reference energy{shown.suffix}")
    axes.set_ylabel(f"predicted energy{shown.suffix}")


def draw_force_parity(axes: Axes, evaluation: Evaluation) -> None:
    """Every component of every force."""
    label, found = evaluation.force_labels.ravel(), evaluation.forces.ravel()
    known = np.isfinite(label) & np.isfinite(found)
    if not known.any():
        show_message(axes, "no force labels")
        return
    label, found = label[known], found[known]
    _parity(axes, label, found)
    _corner(axes, _error_lines(np.abs(found - label).mean() * MEV, np.abs(label).mean() * MEV, "meV/Å"))
    axes.set_xlabel("reference force component (eV/Å)")
    axes.set_ylabel("predicted (eV/Å)")


def draw_stress_parity(axes: Axes, evaluation: Evaluation) -> None:
    """Every known component of every stress."""
    # All nine, like the measures: off-diagonal points coincide in pairs, and the error agrees with the table.
    label, found = evaluation.stress_labels.ravel() * MEV, evaluation.stress.ravel() * MEV
    known = np.isfinite(label) & np.isfinite(found)
    if not known.any():
        show_message(axes, "no stress labels")
        return
    label, found = label[known], found[known]
    _parity(axes, label, found)
    _corner(axes, _error_lines(np.abs(found - label).mean(), np.abs(label).mean(), "meV/Å³"))
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
    axes.ticklabel_format(useOffset=False)  # A number apart from its axis is overlooked.


def _density(axes: Axes, label: FloatArray, found: FloatArray, low: float, high: float) -> None:
    """How many points fall on each small square, as the opacity of one colour: it reads on light and dark pages."""
    counts, _, _ = np.histogram2d(label, found, bins=DENSITY_BINS, range=[[low, high], [low, high]])
    image = np.zeros((DENSITY_BINS, DENSITY_BINS, 4))
    image[..., :3] = to_rgb(ACCENT)
    strength = np.log1p(counts.T) / np.log1p(counts.max())
    image[..., 3] = np.where(counts.T > 0, 0.25 + 0.75 * strength, 0.0)
    axes.imshow(image, extent=(low, high, low, high), origin="lower", interpolation="none", zorder=2)


def _error_lines(error: float, baseline: float | None, unit: str) -> list[str]:
    lines = [f"MAE {significant(error)} {unit}"]
    return lines if baseline is None else [*lines, f"baseline {significant(baseline)}"]


def _corner(axes: Axes, lines: list[str]) -> None:
    axes.text(0.03, 0.97, "\n".join(lines), ha="left", va="top", color=INK, transform=axes.transAxes, zorder=5)
