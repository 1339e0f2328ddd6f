"""Tables of errors that several commands print."""

from typing import Any

from rich.markup import escape
from rich.table import Table

QUANTITIES = (
    ("energy, meV", "energy_{}_mev", 2),
    ("energy, meV/atom", "energy_{}_mev_per_atom", 3),
    ("forces, meV/Å", "force_{}_mev_per_a", 2),
    ("stress, meV/Å³", "stress_{}_mev_per_a3", 3),
    ("stress, GPa", "stress_{}_gpa", 3),
)
SHARES = (
    ("energy within 0.02 eV", "energy_within_threshold"),
    ("… and forces within 0.03 eV/Å", "energy_and_forces_within_threshold"),
)


def metrics_table(metrics: dict[str, Any], title: str) -> Table:
    """MAE and RMSE beside those of the baseline (constant energy per element, zero forces)."""
    table = Table(title=escape(title))
    table.add_column("error", no_wrap=True)
    for column in ("MAE", "RMSE", "baseline MAE", "baseline RMSE"):
        table.add_column(column, justify="right")
    for label, pattern, digits in QUANTITIES:
        names = [prefix + pattern.format(kind) for prefix in ("", "baseline_") for kind in ("mae", "rmse")]
        values = [metrics.get(name) for name in names]
        if values[0] is not None:
            table.add_row(label, *("" if value is None else f"{value:.{digits}f}" for value in values))
    table.caption = "; ".join(_remarks(metrics))
    return table


def _remarks(metrics: dict[str, Any]) -> list[str]:
    remarks = []
    if metrics.get("force_cosine") is not None:
        limit = metrics["thresholds"]["cosine_min_force_ev_per_a"]
        left_out = metrics["force_cosine_left_out"]
        counted = f" over {metrics['force_cosine_atoms']:,} atoms"
        counted += f" ({left_out:,} with |F| < {limit:g} eV/Å left out)" if left_out else ""
        remarks.append(f"force cosine {metrics['force_cosine']:.5f}{counted}")
    remarks += [f"{label}: {100 * metrics[name]:.1f} %" for label, name in SHARES if metrics.get(name) is not None]
    if metrics.get("force_std_mev_per_a") is not None:
        remarks.append(
            f"ensemble spread: forces {metrics['force_std_mev_per_a']:.2f} meV/Å, energy "
            f"{metrics['energy_std_mev']:.2f} meV (correlation with the force error "
            f"{_number(metrics['force_std_error_correlation'], 2)})"
        )
    return remarks


ROWS = (
    ("E MAE", "energy_mae_mev", 1),
    ("E RMSE", "energy_rmse_mev", 1),
    ("E/atom", "energy_mae_mev_per_atom", 2),
    ("F MAE", "force_mae_mev_per_a", 1),
    ("F RMSE", "force_rmse_mev_per_a", 1),
    ("S MAE", "stress_mae_gpa", 3),
)
BASELINE = (("E", "baseline_energy_mae_mev", 0), ("F", "baseline_force_mae_mev_per_a", 0))


def rows_table(rows: dict[str, dict[str, Any]], title: str, first: str) -> Table:
    """A row of errors for each set or label; narrow enough for a terminal of eighty columns.

    Args:
        rows: Metrics by name.
        title: Of the table.
        first: Head of the first column.
    """
    shown = [column for column in ROWS if any(row.get(column[1]) is not None for row in rows.values())]
    table = Table(title=escape(title), padding=(0, 0, 0, 1))
    table.add_column(first, no_wrap=True)
    table.add_column("n", justify="right")
    for head, *_ in shown:
        table.add_column(head, justify="right")
    table.add_column("baseline E, F", justify="right")
    for name, metrics in rows.items():
        cells = [_number(metrics.get(key), digits) for _, key, digits in shown]
        baseline = ", ".join(_number(metrics.get(key), digits) for _, key, digits in BASELINE)
        table.add_row(escape(name), f"{metrics['n_structures']:,}", *cells, baseline)
    table.caption = "E: energy, meV; F: forces, meV/Å" + ("; S: stress, GPa" if shown[-1][0] == "S MAE" else "")
    return table


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
