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


def rows_table(rows: dict[str, dict[str, Any]], title: str, first: str) -> Table:
    """A row of errors for each set or label.

    Args:
        rows: Metrics by name.
        title: Of the table.
        first: Head of the first column.
    """
    table = Table(title=escape(title), caption="in brackets: baseline, a constant energy per element and zero forces")
    table.add_column(first, overflow="fold")
    columns = [
        ("structures", None, 0),
        ("energy MAE, meV", "energy_mae_mev", 2),
        ("RMSE", "energy_rmse_mev", 2),
        ("per atom MAE", "energy_mae_mev_per_atom", 2),
        ("force MAE, meV/Å", "force_mae_mev_per_a", 1),
        ("RMSE", "force_rmse_mev_per_a", 1),
        ("stress MAE, GPa", "stress_mae_gpa", 3),
    ]
    shown = [c for c in columns if c[1] is None or any(row.get(c[1]) is not None for row in rows.values())]
    for head, *_ in shown:
        table.add_column(head, justify="right")
    for name, metrics in rows.items():
        cells = [
            f"{metrics['n_structures']:,}" if key is None else _with_baseline(metrics, key, digits)
            for _, key, digits in shown
        ]
        table.add_row(escape(name), *cells)
    return table


def _with_baseline(metrics: dict[str, Any], key: str, digits: int) -> str:
    value, baseline = metrics.get(key), metrics.get(f"baseline_{key}")
    if value is None:
        return "-"
    return _number(value, digits) + ("" if baseline is None or "rmse" in key else f" ({_number(baseline, digits)})")


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
