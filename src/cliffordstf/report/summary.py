"""One picture of a report, for a README or a chat."""

import warnings
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from cliffordstf.host.files import write_atomically
from cliffordstf.report.curves import draw_curve, panels_with_data
from cliffordstf.report.inputs import ReportInputs
from cliffordstf.report.page import validation_section
from cliffordstf.report.parity import draw_energy_parity, draw_force_parity
from cliffordstf.report.plots import draw_angles
from cliffordstf.report.style import house_style, show_message

_PREFERRED = ("Force error", "Energy error", "Loss")


def write_summary_png(inputs: ReportInputs, path: Path) -> Path:
    """Write a PNG with learning curve, force parity, energy parity and angles between forces of the first section.

    Raises:
        FileWriteError: The file cannot be written.
    """
    path = Path(path)
    with house_style(), warnings.catch_warnings():
        # A title in a script that the font lacks shows boxes; that is no reason to fail or to warn.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(9.6, 7.4), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12), facecolor="white")
        figure.suptitle(inputs.title, fontsize=12, fontweight="bold", parse_math=False)
        panels = figure.subplots(2, 2).ravel().tolist()
        _draw_learning(panels[0], inputs)
        _draw_section(panels[1:], inputs)
        write_atomically(path, lambda target: figure.savefig(target, format="png", dpi=130))
    return path


def _draw_learning(axes: Axes, inputs: ReportInputs) -> None:
    panels = panels_with_data(inputs.history)
    if not panels:
        show_message(axes, "no training history")
        return
    panel = min(panels, key=lambda item: _PREFERRED.index(item.title) if item.title in _PREFERRED else 9)
    reference = validation_section(inputs.sections)
    zero = reference.metrics.get(panel.baseline_metric) if reference and panel.baseline_metric else None
    draw_curve(axes, inputs.history, panel, zero)


def _draw_section(panels: list[Axes], inputs: ReportInputs) -> None:
    for axes, draw in zip(panels, (draw_force_parity, draw_energy_parity, draw_angles), strict=True):
        if inputs.sections:
            draw(axes, inputs.sections[0].evaluation)
        else:
            show_message(axes, "nothing was evaluated")
