"""The part of the page about one evaluated data set."""

from collections.abc import Callable
from functools import partial
from html import escape

import numpy as np
from ase.formula import Formula
from matplotlib.axes import Axes

from cliffordstf.data.structure import symbol
from cliffordstf.report import parity, plots
from cliffordstf.report.energies import ShownEnergies, shown_energies
from cliffordstf.report.headline import baseline_measures
from cliffordstf.report.inputs import ReportSection
from cliffordstf.report.markup import (
    NOT_FINITE,
    Cell,
    cosine_text,
    figure,
    is_number,
    measured_cell,
    number_cell,
    significant,
    table,
)
from cliffordstf.report.measures import config_type_tables, group_table, measures_tables
from cliffordstf.report.notices import measure_warnings
from cliffordstf.report.scene import MOST_ATOMS, as_script_data, looks, scene
from cliffordstf.report.style import FIGURE_SIZE, svg_figure
from cliffordstf.report.worst import StructureErrors, structure_errors
from cliffordstf.train.evaluation import Evaluation
from cliffordstf.train.metrics import COSINE_MIN_FORCE

IN_VIEWER = 5
IN_TABLE = 25


def section_html(section: ReportSection, identity: str) -> str:
    """Measures, figures, the worst structures. `identity` is an id that is unique on the page."""
    evaluation = section.evaluation
    baseline = baseline_measures(evaluation)
    size = f"{len(evaluation.frames):,} structures, {len(evaluation.numbers):,} atoms"
    parts = [
        f'<section id="{identity}"><h2>{escape(section.title)} <small>{size}</small></h2>',
        measure_warnings(section, baseline),
        f'<div class="figures">{measures_tables(section, baseline)}{"".join(_figures(section))}</div>',
        config_type_tables(section),
        group_table(section, "element"),
        group_table(section, "tag"),
        _worst(evaluation, f"{identity}-viewer"),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _figures(section: ReportSection) -> list[str]:
    evaluation, metrics, name = section.evaluation, section.metrics, section.title
    result = []

    def add(draw: Callable[[Axes], None], caption: str, size: tuple[float, float] = FIGURE_SIZE) -> None:
        result.append(figure(svg_figure(draw, f"{name}: {caption}", size), caption))

    if (energies := shown_energies(evaluation)) is not None:
        add(partial(parity.draw_energy_parity, evaluation=evaluation), _energy_caption(energies))
    if (np.isfinite(evaluation.force_labels) & np.isfinite(evaluation.forces)).any():
        caption = "Force components, predicted against reference; deeper colour, more components."
        add(partial(parity.draw_force_parity, evaluation=evaluation), caption)
    if atoms := len(plots.force_angles(evaluation)):
        caption = (
            f"Angle between predicted and true force of {atoms:,} atoms. True forces below {COSINE_MIN_FORCE:g} eV/Å "
            "are left out: their direction is noise."
        )
        add(partial(plots.draw_angles, evaluation=evaluation), caption)
    if plots.shown_elements(per_element := metrics.get("per_element") or {}):
        add(partial(plots.draw_elements, per_element=per_element), *_elements_caption(per_element))
    bins = metrics.get("force_cosine_by_magnitude") or []
    if any(is_number(row.get("force_mae_mev_per_a")) for row in bins):
        add(partial(plots.draw_error_by_magnitude, bins=bins), "Force error by the size of the true force.")
    if any(is_number(row.get("force_cosine")) for row in bins):
        caption = "Force direction by the size of the true force: distance of the mean cosine (written) from 1."
        add(partial(plots.draw_cosine_by_magnitude, bins=bins), caption)
    if (np.isfinite(evaluation.stress_labels) & np.isfinite(evaluation.stress)).any():
        caption = "Stress components, predicted against reference."
        add(partial(parity.draw_stress_parity, evaluation=evaluation), caption)
    return result


def _energy_caption(energies: ShownEnergies) -> str:
    caption = "Energy per atom, predicted against reference"
    if "isolated atoms" in energies.without:
        caption += ", without the energies of the isolated atoms"
    if "fit" in energies.without:
        caption += ", without a least-squares energy of each element, which makes up for differences in composition"
    if energies.mean is not None:
        caption += ", relative to the mean of the reference"
    return f"{caption}."


def _elements_caption(per_element: dict[str, dict[str, object]]) -> tuple[str, tuple[float, float]]:
    shown = len(plots.shown_elements(per_element))
    caption = "Force error by element, beside that of the baseline, which predicts zero."
    if shown < len(per_element):
        caption += f" The {shown} elements with the largest error of {len(per_element)}."
    return caption, (FIGURE_SIZE[0], max(FIGURE_SIZE[1], 0.8 + 0.19 * shown))


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
        shown_error = significant(error) if is_number(error) else NOT_FINITE
        scenes.append(scene(evaluation, index, f"{rank + 1}. {shown_error} {unit} · {name}"))
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
            row += [_error_cell(errors.force_mae[index]), _error_cell(errors.force_worst[index])]
            row.append(_error_cell(errors.force_cosine[index], cosine_text))
        row += [_error_cell(errors.energy[index]), _error_cell(errors.energy_per_atom[index])]
        body.append(row)
    return table(headers, body, sortable=True)


def _error_cell(value: float, text: Callable[[float | None], str] = significant) -> Cell:
    """An error of `structure_errors`, which is NaN without a label."""
    return measured_cell(None) if np.isnan(value) else measured_cell(float(value), text(value))


def _formula(numbers: list[int]) -> str:
    """Hill formula.

    >>> _formula([8, 1, 1])
    'H2O'
    """
    symbols = [symbol(number) for number in numbers]
    return str(Formula.from_list(symbols).format("hill")) if all(name.isalpha() for name in symbols) else "?"
