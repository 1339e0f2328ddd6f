"""Tables that several commands print."""

from typing import Any

from rich.table import Table

ROWS = (
    ("energy MAE, meV", "energy_mae_mev", "baseline_energy_mae_mev", 2),
    ("energy RMSE, meV", "energy_rmse_mev", None, 2),
    ("energy MAE, meV/atom", "energy_mae_mev_per_atom", "baseline_energy_mae_mev_per_atom", 3),
    ("force MAE, meV/Å", "force_mae_mev_per_a", "baseline_force_mae_mev_per_a", 2),
    ("force RMSE, meV/Å", "force_rmse_mev_per_a", "baseline_force_rmse_mev_per_a", 2),
    ("force cosine", "force_cosine", None, 5),
    ("stress MAE, meV/Å³", "stress_mae_mev_per_a3", "baseline_stress_mae_mev_per_a3", 3),
    ("energy within 0.02 eV", "energy_within_threshold", None, 3),
    ("… and forces within 0.03 eV/Å", "energy_and_forces_within_threshold", None, 3),
)


def metrics_table(metrics: dict[str, Any], title: str) -> Table:
    """Errors beside those of the baseline model (constant energy, zero forces)."""
    table = Table(title=title)
    table.add_column("measure")
    table.add_column("model", justify="right")
    table.add_column("baseline", justify="right")
    for label, name, zero, digits in ROWS:
        value = metrics.get(name)
        if value is None:
            continue
        baseline = metrics.get(zero) if zero else None
        if name == "force_cosine":
            baseline = 0.0
        table.add_row(label, f"{value:.{digits}f}", "" if baseline is None else f"{baseline:.{digits}f}")
    return table
