"""Tables of a section's measures: of all structures, of the atoms of each group, of each config type."""

from typing import Any

from cliffordstf.report.headline import MEASURES, cosine_atoms
from cliffordstf.report.inputs import ReportSection
from cliffordstf.report.markup import Cell, cosine_text, is_number, measured_cell, table

_ERRORS = (
    ("Energy", "meV", "energy", "mev"),
    ("Energy per atom", "meV/atom", "energy", "mev_per_atom"),
    ("Forces", "meV/Å", "force", "mev_per_a"),
    ("Stress", "meV/Å³", "stress", "mev_per_a3"),
    ("Stress", "GPa", "stress", "gpa"),
)
_COLUMNS = (("", "mae"), ("", "rmse"), ("baseline_", "mae"), ("baseline_", "rmse"))
_SHOWN_FIRST = ("mev_per_atom", "mev_per_a", "gpa")


def measures_tables(section: ReportSection, baseline: dict[str, Any]) -> str:
    """Every measure of a section that has a value, beside the baseline.

    Args:
        section: The evaluated data set.
        baseline: Measures of its baseline, of `baseline_measures`.
    """
    tables = _error_table(section.metrics) + _score_table(section.metrics, baseline)
    return f'<div class="measures">{tables}</div>' if tables else ""


def _error_table(metrics: dict[str, Any]) -> str:
    rows = []
    for name, unit, quantity, ending in _ERRORS:
        values = [metrics.get(f"{prefix}{quantity}_{kind}_{ending}") for prefix, kind in _COLUMNS]
        if values[0] is not None:
            cells = [measured_cell(value, strong=column < 2) for column, value in enumerate(values)]
            rows.append([Cell(name), Cell(unit), *cells])
    return table(["error of", "unit", "MAE", "RMSE", "baseline MAE", "baseline RMSE"], rows) if rows else ""


def _score_table(metrics: dict[str, Any], baseline: dict[str, Any]) -> str:
    rows = []
    for measure in MEASURES:
        value, other = measure.value(metrics), measure.value(baseline)
        if measure.kind != "error" and value is not None:
            unit = f" ({measure.unit})" if measure.unit else ""
            rows.append(
                [
                    Cell(f"{measure.name}{unit}"),
                    measured_cell(value, measure.text(value), strong=True),
                    measured_cell(other, measure.text(other)),
                ]
            )
    return table(["score", "model", "baseline"], rows, caption=_score_caption(metrics)) if rows else ""


def _score_caption(metrics: dict[str, Any]) -> str:
    limits = metrics.get("thresholds") or {}
    caption = ""
    if is_number(limits.get("energy_ev")) and is_number(limits.get("force_ev_per_a")):
        caption = (
            f"Thresholds: energy of a structure within {limits['energy_ev'] * 1000:g} meV, each force component within "
            f"{limits['force_ev_per_a'] * 1000:g} meV/Å."
        )
    if metrics.get("force_cosine") is not None and (atoms := cosine_atoms(metrics)):
        caption += f" Force cosine: {atoms}; the direction of smaller forces is noise."
    return caption.strip()


def group_table(section: ReportSection, group: str) -> str:
    """Force errors of the atoms of each `element` or `tag`, folded away."""
    found = section.metrics.get(f"per_{group}") or {}
    if all(row.get("force_mae_mev_per_a") is None for row in found.values()):
        return ""
    rows = [
        [
            Cell(name),
            _count(row, "n_atoms"),
            measured_cell(row.get("force_mae_mev_per_a")),
            measured_cell(row.get("baseline_force_mae_mev_per_a")),
            _cosine(row),
            _count(row, "force_cosine_atoms"),
        ]
        for name, row in found.items()
    ]
    headers = [group, "atoms", "force MAE (meV/Å)", "baseline (meV/Å)", "force cosine", "atoms in cosine"]
    return f"<details><summary>Numbers by {group}</summary>{table(headers, rows, sortable=True)}</details>"


def config_type_tables(section: ReportSection) -> str:
    """Errors of the structures of each config type, where there are two or more."""
    found = section.metrics.get("per_config_type") or {}
    if len(found) < 2:
        return ""
    limit = (section.metrics.get("thresholds") or {}).get("cosine_min_force_ev_per_a")
    caption = f"Force cosine: atoms with true |F| ≥ {limit:g} eV/Å." if is_number(limit) else ""
    others = tuple(ending for _, _, _, ending in _ERRORS if ending not in _SHOWN_FIRST)
    more = _config_type_table(found, others, "")
    summary = "Energies of whole structures, and stress in meV/Å³, by config type"
    return f"<h3>Errors by config type</h3>{_config_type_table(found, _SHOWN_FIRST, caption)}" + (
        f"<details><summary>{summary}</summary>{more}</details>" if more else ""
    )


def _config_type_table(found: dict[str, dict[str, Any]], endings: tuple[str, ...], caption: str) -> str:
    """Errors in the units of some endings of keys, baselines last; empty if no config type has any."""
    known = [
        (unit, quantity, ending)
        for _, unit, quantity, ending in _ERRORS
        if ending in endings and any(row.get(f"{quantity}_mae_{ending}") is not None for row in found.values())
    ]
    if not known:
        return ""
    columns = ["n_structures", "n_atoms"]
    for prefix in ("", "baseline_"):
        for _, quantity, ending in known:
            columns += [f"{prefix}{quantity}_{kind}_{ending}" for kind in ("mae", "rmse")]
            columns += ["force_cosine", "force_cosine_atoms"] if not prefix and ending == "mev_per_a" else []
    units = {ending: unit for unit, _, ending in known}
    rows = [[Cell(label), *(_config_type_cell(row, key) for key in columns)] for label, row in found.items()]
    headers = ["config type", *(_config_type_header(key, units) for key in columns)]
    return table(headers, rows, sortable=True, caption=caption)


def _config_type_header(key: str, units: dict[str, str]) -> str:
    """Head of the column of a key, as in `baseline energy MAE (meV/atom)`."""
    if "_mae_" not in key and "_rmse_" not in key:
        return "atoms in cosine" if key == "force_cosine_atoms" else key.removeprefix("n_").replace("_", " ")
    kind = "mae" if "_mae_" in key else "rmse"
    quantity, ending = key.split(f"_{kind}_")
    return f"{quantity.replace('_', ' ')} {kind.upper()} ({units[ending]})"


def _config_type_cell(row: dict[str, Any], key: str) -> Cell:
    if key == "force_cosine":
        return _cosine(row)
    if key.startswith("n_") or key == "force_cosine_atoms":
        return _count(row, key)
    return measured_cell(row.get(key), strong=not key.startswith("baseline_"))


def _count(row: dict[str, Any], key: str) -> Cell:
    return measured_cell(row.get(key), f"{row.get(key) or 0:,}")


def _cosine(row: dict[str, Any]) -> Cell:
    return measured_cell(row.get("force_cosine"), cosine_text(row.get("force_cosine")))
