"""Pictures of results: learning curves of rMD17 runs, scans of acetylacetone."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from cliffordstf.bench.literature.published_values import RMD17_MOLECULES, rmd17
from cliffordstf.bench.tables.formatting import length, length_text
from cliffordstf.host.files import write_atomically
from cliffordstf.report.style import ACCENT, INK, MUTED, SECOND, THIRD, house_style

_COLOURS = (ACCENT, SECOND, THIRD, MUTED, "#8e5bb5", "#b5453c", "#3aa6a0", "#a8862b")
_FORCE = "valid_force_mae_mev_per_a"


def draw(results: list[dict[str, Any]], path: Path) -> bool:
    """Draw what the results allow into a PNG or SVG file; False if there is nothing to draw."""
    panels = [*_learning_curves(results), *_scans(results)]
    if not panels:
        return False
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    with house_style():
        figure, axes = plt.subplots(rows, columns, figsize=(3.4 * columns, 2.8 * rows), squeeze=False)
        for axis, panel in zip(axes.flat, panels, strict=False):
            panel(axis)
        for axis in axes.flat[len(panels) :]:
            axis.remove()
        bottom = _legend(figure, list(axes.flat[: len(panels)]))
        figure.tight_layout(rect=(0, bottom, 1, 1))
        kind = path.suffix.removeprefix(".") or "png"
        write_atomically(path, lambda target: figure.savefig(target, dpi=110, format=kind))
        plt.close(figure)
    return True


def _legend(figure: Figure, axes: list[Axes]) -> float:
    """One legend for all panels, below them; the share of the height that it takes."""
    entries = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    columns = min(len(entries), 4)
    figure.legend(entries.values(), entries.keys(), loc="lower center", ncols=columns, fontsize=8)
    return 0.3 * (-(-len(entries) // columns)) / figure.get_figheight()


def _learning_curves(results: list[dict[str, Any]]) -> list[Any]:
    """One panel a molecule: validation force error over training time, and test errors at the end."""
    runs = [r for r in results if r.get("benchmark") == "rmd17" and any(_FORCE in row for row in r["history"])]
    labels = sorted({run["recipe"] for run in runs})
    colours = {label: _COLOURS[number % len(_COLOURS)] for number, label in enumerate(labels)}
    panels = []
    for molecule in RMD17_MOLECULES:
        chosen = [run for run in runs if run["molecule"] == molecule]
        if chosen:
            panels.append(lambda axis, name=molecule, found=chosen: _learning_curve(axis, name, found, colours))
    return panels


def _learning_curve(axis: Axes, molecule: str, runs: list[dict[str, Any]], colours: dict[str, str]) -> None:
    for run in runs:
        rows = [row for row in run["history"] if _FORCE in row]
        colour = colours[run["recipe"]]
        label = f"{run['recipe']}, {length_text(length(run))}"
        axis.plot([row["seconds"] / 60 for row in rows], [row[_FORCE] for row in rows], color=colour, label=label)
        axis.plot(run["seconds"] / 60, run["metrics"]["force_mae_mev_per_a"], "o", color=colour, markersize=4)
    published = rmd17(950, "MACE", molecule)
    if published is not None:
        axis.axhline(published[1], color=INK, linewidth=0.8, linestyle=":", label="MACE, published")
    axis.set(xscale="log", yscale="log", title=molecule, xlabel="training time (min)", ylabel="force MAE (meV/Å)")
    for scale in (axis.xaxis, axis.yaxis):
        scale.set_major_locator(LogLocator(subs=(1, 2, 5)))
        scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        scale.set_minor_locator(NullLocator())


def _scans(results: list[dict[str, Any]]) -> list[Any]:
    """One panel a scan of acetylacetone: true and predicted energies above the lowest true point."""
    runs = [result for result in results if result.get("benchmark") == "acac"]
    names = dict.fromkeys(name for run in runs for name, test in run["tests"].items() if "energy_ev" in test)
    return [lambda axis, scan=name: _scan(axis, scan, runs) for name in names]


def _scan(axis: Axes, name: str, runs: list[dict[str, Any]]) -> None:
    true = np.array(runs[0]["tests"][name]["energy_label_ev"])
    lowest = int(true.argmin())
    axis.plot(1000 * (true - true[lowest]), color=INK, linestyle=":", label="reference")
    for number, run in enumerate(runs):
        found = np.array(run["tests"][name]["energy_ev"])
        label = f"{run['recipe']}, seed {run['seed']}"
        axis.plot(1000 * (found - found[lowest]), color=_COLOURS[number % len(_COLOURS)], label=label)
    axis.set(title=name, xlabel="point of the scan", ylabel="energy (meV)")
