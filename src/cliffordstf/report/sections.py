"""The part of the page about one evaluated data set."""

from collections.abc import Callable
from functools import partial
from html import escape

import numpy as np
from ase.formula import Formula
from matplotlib.axes import Axes

from cliffordstf.data.structure import symbol
from cliffordstf.report import plots
from cliffordstf.report.headline import measures_table, warnings
from cliffordstf.report.inputs import ReportSection
from cliffordstf.report.markup import Cell, cosine_text, figure, number_cell, significant, table
from cliffordstf.report.scene import MOST_ATOMS, as_script_data, looks, scene
from cliffordstf.report.style import FIGURE_SIZE, svg_figure
from cliffordstf.report.worst import StructureErrors, structure_errors
from cliffordstf.train.evaluation import Evaluation

IN_VIEWER = 5
IN_TABLE = 25


def section_html(section: ReportSection, identity: str) -> str:
    """Measures, figures, the worst structures. `identity` is an id that is unique on the page."""
    evaluation = section.evaluation
    size = f"{len(evaluation.frames):,} structures, {len(evaluation.numbers):,} atoms"
    parts = [
        f'<section id="{identity}"><h2>{escape(section.title)} <small>{size}</small></h2>',
        warnings(section),
        f'<div class="figures">{measures_table(section)}{"".join(_figures(section))}</div>',
        _group_details(section, "element"),
        _group_details(section, "tag"),
        _worst(evaluation, f"{identity}-viewer"),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _figures(section: ReportSection) -> list[str]:
    evaluation, metrics, name = section.evaluation, section.metrics, section.title
    result = []

    def add(draw: Callable[[Axes], None], caption: str, size: tuple[float, float] = FIGURE_SIZE) -> None:
        result.append(figure(svg_figure(draw, f"{name}: {caption}", size), caption))

    if (np.isfinite(evaluation.energy_label) & np.isfinite(evaluation.energy)).any():
        caption = "Energy per atom, predicted against reference, relative to the mean of the reference."
        add(partial(plots.draw_energy_parity, evaluation=evaluation), caption)
    if len(plots.force_angles(evaluation)):
        caption = "Force components, predicted against reference; deeper colour, more components."
        add(partial(plots.draw_force_parity, evaluation=evaluation), caption)
        caption = "Angle between predicted and true force. Forces near zero have no direction that could be learned."
        add(partial(plots.draw_angles, evaluation=evaluation), caption)
        if per_element := metrics.get("per_element") or {}:
            add(partial(plots.draw_elements, per_element=per_element), *_elements_caption(per_element))
        if bins := metrics.get("force_cosine_by_magnitude") or []:
            add(partial(plots.draw_error_by_magnitude, bins=bins), "Force error by the size of the true force.")
            caption = "Force direction by the size of the true force: distance of the mean cosine (written) from 1."
            add(partial(plots.draw_cosine_by_magnitude, bins=bins), caption)
    if (np.isfinite(evaluation.stress_labels) & np.isfinite(evaluation.stress)).any():
        add(partial(plots.draw_stress_parity, evaluation=evaluation), "Stress components, predicted against reference.")
    return result


def _elements_caption(per_element: dict[str, dict[str, object]]) -> tuple[str, tuple[float, float]]:
    shown = len(plots.shown_elements(per_element))
    caption = "Force error by element, beside that of predicting zero."
    if shown < len(per_element):
        caption += f" The {shown} elements with the largest error of {len(per_element)}."
    return caption, (FIGURE_SIZE[0], max(FIGURE_SIZE[1], 0.8 + 0.19 * shown))


def _group_details(section: ReportSection, group: str) -> str:
    """Force errors of the atoms of each element or tag, folded away."""
    found = section.metrics.get(f"per_{group}") or {}
    if not plots.shown_elements(found):
        return ""
    rows = [
        [
            Cell(name),
            number_cell(row.get("n_atoms"), f"{row.get('n_atoms', 0):,}"),
            number_cell(row.get("force_mae_mev_per_a")),
            number_cell(row.get("baseline_force_mae_mev_per_a")),
            number_cell(row.get("force_cosine"), cosine_text(row.get("force_cosine"))),
        ]
        for name, row in found.items()
    ]
    headers = [group, "atoms", "force MAE (meV/Å)", "baseline (meV/Å)", "force cosine"]
    return f"<details><summary>Numbers by {group}</summary>{table(headers, rows, sortable=True)}</details>"


def _worst(evaluation: Evaluation, viewer: str) -> str:
    errors = structure_errors(evaluation)
    order = errors.worst_first()
    if not len(order):
        return '<p class="missing">No labels to compare with, so no structure can be called the worst.</p>'
    sizes = evaluation.atoms_per_structure
    shown = [int(index) for index in order if sizes[index] <= MOST_ATOMS][:IN_VIEWER]
    by = "force MAE" if errors.has_forces else "energy error per atom"
    remark = f"The worst by {by}; a click on a name shows it."
    if any(sizes[index] > MOST_ATOMS for index in order[:IN_VIEWER]):
        remark += f" Structures of more than {MOST_ATOMS:,} atoms are left out of the viewer."
    return (
        f'<h3>Worst structures</h3><p class="lead">{remark}</p>'
        + (_viewer(evaluation, errors, shown, viewer) if shown else "")
        + _worst_table(evaluation, errors, [int(index) for index in order[:IN_TABLE]], shown, viewer)
    )


def _viewer(evaluation: Evaluation, errors: StructureErrors, shown: list[int], viewer: str) -> str:
    scenes = []
    for rank, index in enumerate(shown):
        error, unit = errors.force_mae[index], "meV/Å"
        if not errors.has_forces:
            error, unit = errors.energy_per_atom[index], "meV/atom"
        name = evaluation.frames[index].structure.name
        scenes.append(scene(evaluation, index, f"{rank + 1}. {significant(error)} {unit} · {name}"))
    data = as_script_data({"elements": looks(evaluation), "scenes": scenes})
    return (
        f'<div class="viewer" id="{viewer}"><noscript>The 3D viewer needs JavaScript.</noscript></div>'
        f'<script type="application/json" data-for="{viewer}">{data}</script>'
    )


def _worst_table(
    evaluation: Evaluation, errors: StructureErrors, rows: list[int], shown: list[int], viewer: str
) -> str:
    headers = ["rank", "structure", "formula", "atoms"]
    if errors.has_forces:
        headers += ["force MAE (meV/Å)", "worst atom (meV/Å)", "force cosine"]
    headers += ["energy error (meV)", "energy error (meV/atom)"]
    body = []
    for rank, index in enumerate(rows):
        structure = evaluation.frames[index].structure
        name = Cell(structure.name)
        if index in shown:
            button = f'data-viewer="{viewer}" data-show="{shown.index(index)}"'
            name = Cell(f'<button type="button" class="link" {button}>{escape(structure.name)}</button>', is_html=True)
        row = [number_cell(rank + 1, str(rank + 1)), name, Cell(_formula(structure.numbers.tolist()))]
        row.append(number_cell(len(structure), f"{len(structure):,}"))
        if errors.has_forces:
            cosine = errors.force_cosine[index]
            row += [number_cell(errors.force_mae[index]), number_cell(errors.force_worst[index])]
            row.append(number_cell(cosine, cosine_text(cosine)))
        row += [number_cell(errors.energy[index]), number_cell(errors.energy_per_atom[index])]
        body.append(row)
    return table(headers, body, sortable=True)


def _formula(numbers: list[int]) -> str:
    """Hill formula.

    >>> _formula([8, 1, 1])
    'H2O'
    """
    symbols = [symbol(number) for number in numbers]
    return str(Formula.from_list(symbols).format("hill")) if all(name.isalpha() for name in symbols) else "?"
