"""Call-outs: warnings about the data, and measures that must not be overlooked."""

from html import escape
from typing import Any

from cliffordstf.report.headline import MEASURES
from cliffordstf.report.inputs import ReportSection
from cliffordstf.report.worst import unusable_predictions

UNFOLDED = 8
"""Warnings about the data that are visible at once; the others are folded away."""


def counted_warnings(messages: list[str]) -> str:
    """How many there are, as in `1 warning`."""
    return f"{len(messages):,} warning{'' if len(messages) == 1 else 's'}"


def data_warnings(messages: list[str]) -> str:
    """Everything found while the data were read, in one box that can be closed; empty without warnings."""
    if not messages:
        return ""
    first, others = messages[:UNFOLDED], messages[UNFOLDED:]
    folded = f"<details><summary>{len(others):,} more</summary>{_items(others)}</details>" if others else ""
    return (
        f'<details class="notices" id="warnings" open><summary>{counted_warnings(messages)} about the data</summary>'
        f"{_items(first)}{folded}</details>"
    )


def _items(messages: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(message)}</li>" for message in messages) + "</ul>"


def measure_warnings(section: ReportSection, baseline: dict[str, Any]) -> str:
    """Call-outs for measures worse than the baseline and for predictions that are not finite.

    Args:
        section: The evaluated data set.
        baseline: Measures of its baseline, of `baseline_measures`.
    """
    messages = []
    worse = [measure.name for measure in MEASURES if measure.is_worse(section.metrics, baseline)]
    if worse:
        messages.append(
            f"Worse than the baseline, which predicts a constant energy and zero forces: {', '.join(worse)}."
        )
    energies, forces, stresses = unusable_predictions(section.evaluation)
    if energies or forces or stresses:
        messages.append(
            f"Not finite: {energies:,} predicted energies and the predicted forces of {forces:,} atoms and stresses of "
            f"{stresses:,} structures, all of which have labels. Measures that include them are NaN; plots leave them "
            "out."
        )
    return "".join(f'<p class="warning" role="note">{escape(message)}</p>' for message in messages)
