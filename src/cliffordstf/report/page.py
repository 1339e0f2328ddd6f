"""The page: one HTML file that needs nothing else."""

from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path

from cliffordstf.host.files import write_text
from cliffordstf.report.curves import draw_curve, panels_with_data
from cliffordstf.report.headline import cards, comparison_table
from cliffordstf.report.inputs import ReportInputs, ReportSection
from cliffordstf.report.markup import as_yaml, code_block, definition_table, figure, foreign_svg
from cliffordstf.report.notices import counted_warnings, data_warnings
from cliffordstf.report.sections import section_html
from cliffordstf.report.style import svg_figure

SCRIPTS = ("scene.js", "viewer.js", "table.js")
# The browser itself enforces that the page loads nothing.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_ERROR_HOOK = (
    'window.addEventListener("error", (event) => {'
    'document.documentElement.dataset.scriptError = event.message || "unknown error"; });'
)


def write_report(inputs: ReportInputs, directory: Path) -> Path:
    """Write `index.html`, one self-contained file, into a directory that is made if need be; returns its path.

    Raises:
        FileWriteError: The file cannot be written.
    """
    path = Path(directory) / "index.html"
    text = report_html(inputs)
    write_text(path, text)
    return path


def report_html(inputs: ReportInputs) -> str:
    """The text of the page."""
    sections = "\n".join(section_html(section, f"set-{index}") for index, section in enumerate(inputs.sections))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(inputs.title)}</title>
<style>
{_asset("style.css")}
</style>
<script>{_ERROR_HOOK}</script>
</head>
<body>
{_header(inputs)}
<main>
{_comparison(inputs)}
{_learning(inputs)}
{sections}
{_extra(inputs)}
{_appendix(inputs)}
</main>
<footer>Energies in meV, forces in meV/Å, stress in meV/Å³ unless stated otherwise. The baseline
predicts a constant energy per element, zero forces, zero stress.</footer>
<script>
"use strict";
(() => {{
{chr(10).join(_asset(name) for name in SCRIPTS)}
}})();
</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return files("cliffordstf.report").joinpath("assets", name).read_text(encoding="utf-8").strip()


def _header(inputs: ReportInputs) -> str:
    parts = [f"<header><h1>{escape(inputs.title)}</h1>"]
    if inputs.sections:
        first = inputs.sections[0]
        counts = f"{len(first.evaluation.frames):,} structures, {len(first.evaluation.numbers):,} atoms"
        parts.append(f'<p class="lead">Errors on <strong>{escape(first.title)}</strong> ({counts}), ')
        parts.append("each beside the baseline: a constant energy and zero forces.</p>")
        parts.append(cards(first))
    parts.append(_navigation(inputs))
    parts.append(data_warnings(inputs.warnings))
    parts += [f'<p class="note">{escape(note)}</p>' for note in inputs.notes]
    return "".join(parts) + "</header>"


def _navigation(inputs: ReportInputs) -> str:
    links = [("warnings", counted_warnings(inputs.warnings))] if inputs.warnings else []
    links += [("comparison", "Comparison")] if inputs.comparison else []
    links += [("learning", "Learning curves")] if panels_with_data(inputs.history) else []
    links += [(f"set-{index}", section.title) for index, section in enumerate(inputs.sections)]
    links += [("figures", "Figures")] if inputs.extra_figures else []
    links += [("config", "Config")] if inputs.config else []
    links += [("provenance", "Provenance")] if inputs.provenance else []
    return "<nav>" + "".join(f'<a href="#{target}">{escape(text)}</a>' for target, text in links) + "</nav>"


def _comparison(inputs: ReportInputs) -> str:
    if not inputs.comparison:
        return ""
    return f'<section id="comparison"><h2>Comparison</h2>{comparison_table(inputs.comparison)}</section>'


def validation_section(sections: list[ReportSection]) -> ReportSection | None:
    """The section that the learning curves were measured on, as far as its title tells, or else the first."""
    return next((s for s in sections if "valid" in s.title.lower()), sections[0] if sections else None)


def _learning(inputs: ReportInputs) -> str:
    panels = panels_with_data(inputs.history)
    if not panels:
        return ""
    reference = validation_section(inputs.sections)
    figures = []
    for panel in panels:
        zero = reference.metrics.get(panel.baseline_metric) if reference and panel.baseline_metric else None
        draw = partial(draw_curve, history=inputs.history, panel=panel, zero=zero)
        caption = f"{panel.title} by epoch."
        if zero is not None and reference is not None:
            caption += f" Dashed: the baseline on {reference.title}."
        figures.append(figure(svg_figure(draw, f"{panel.axis} by epoch", (4.0, 3.0)), caption))
    return (
        f'<section id="learning"><h2>Learning curves <small>{len(inputs.history):,} validations</small></h2>'
        f'<div class="figures small">{"".join(figures)}</div></section>'
    )


def _extra(inputs: ReportInputs) -> str:
    if not inputs.extra_figures:
        return ""
    figures = "".join(foreign_svg(caption, svg) for caption, svg in inputs.extra_figures)
    return f'<section id="figures"><h2>Figures</h2><div class="figures">{figures}</div></section>'


def _appendix(inputs: ReportInputs) -> str:
    parts = []
    if inputs.config:
        parts.append(f'<section id="config"><h2>Config</h2>{code_block(as_yaml(inputs.config))}</section>')
    if inputs.provenance:
        parts.append(f'<section id="provenance"><h2>Provenance</h2>{definition_table(inputs.provenance)}</section>')
    return "\n".join(parts)
