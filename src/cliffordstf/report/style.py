"""How figures look, and how they become markup: inline SVG that follows the page's light or dark theme."""

import hashlib
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from numpy.typing import ArrayLike

INK = "#1b1e22"
MUTED = "#666d75"
GRID = "#e1e4e8"
ACCENT = "#2a6fdb"
SECOND = "#d9772b"
THIRD = "#3d9a6a"
# The page replaces these colours by its own, which differ between its light and its dark theme.
_CSS_VARIABLES = {INK: "ink", MUTED: "muted", GRID: "grid", ACCENT: "accent", SECOND: "second", THIRD: "third"}

FIGURE_SIZE = (4.6, 3.5)
"""Inches, of one figure of the page."""

_SETTINGS = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "cliffordstf",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib settings of this package, for the time of one figure."""
    with matplotlib.rc_context(rc=_SETTINGS):  # type: ignore[arg-type]
        yield


def svg_figure(draw: Callable[[Axes], None], label: str, size: tuple[float, float] = FIGURE_SIZE) -> str:
    """Draw on fresh axes and return inline SVG.

    Args:
        draw: Draws on the axes it is given.
        label: Read out by screen readers.
        size: Inches.
    """
    buffer = io.StringIO()
    with house_style():
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(buffer, format="svg", transparent=True, dpi=160, metadata={"Date": None})
    return _inline(buffer.getvalue(), label)


def _inline(svg: str, label: str) -> str:
    """SVG for an HTML page: no prologue, no namespaces, theme colours, ids that are unique on the page."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    head, body = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    prefix = "f" + hashlib.sha256((label + body).encode()).hexdigest()[:10]
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    body = re.sub(r'href="#', f'href="#{prefix}-', body)
    body = re.sub(r"url\(#", f"url(#{prefix}-", body)
    for colour, name in _CSS_VARIABLES.items():
        body = body.replace(colour, f"var(--{name})")
    return f'<svg {box.group() if box else ""} role="img" aria-label="{escape(label)}">{body}'


def log_axis(axes: Axes, direction: Literal["x", "y"], values: ArrayLike) -> None:
    """Make an axis logarithmic, with plain numbers at its ticks, if there is anything positive to show.

    Args:
        axes: To change.
        direction: Which of its two axes.
        values: Everything drawn along it; what is not positive cannot be seen.
    """
    drawn = np.asarray(values, dtype=np.float64)
    drawn = drawn[np.isfinite(drawn) & (drawn > 0)]
    if not len(drawn):
        return
    low, high = float(drawn.min()), float(drawn.max())
    # Limits are ours: with all values equal, or nearly, matplotlib would show no labelled tick at all.
    margin = 1.6 if high / low < 3 else max(1.12, (high / low) ** 0.05)
    low, high = low / margin, high * margin
    if direction == "x":
        axes.set_xscale("log")
        axes.set_xlim(low, high)
    else:
        axes.set_yscale("log")
        axes.set_ylim(low, high)
    axis = axes.xaxis if direction == "x" else axes.yaxis
    decades = np.log10(high / low)
    subs = (1.0, 2.0, 5.0) if decades < 2.2 else (1.0, 3.0) if decades < 3.2 else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def show_message(axes: Axes, message: str) -> None:
    """Write a message where a plot would have been."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, message, ha="center", va="center", color=MUTED, transform=axes.transAxes)
