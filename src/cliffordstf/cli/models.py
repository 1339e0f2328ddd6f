"""`cliffordstf models`: the models that come with the package."""

from rich.console import Console
from rich.table import Table

from cliffordstf.model.shipped import shipped_info


def models() -> None:
    """List the shipped models: elements, level of theory, test error."""
    table = Table(title="Shipped models; every command that takes MODEL takes these names")
    table.add_column("name", no_wrap=True)
    table.add_column("elements")
    table.add_column("level of theory")
    for column in ("force MAE meV/Å", "energy MAE meV", "parameters"):
        table.add_column(column, justify="right")
    for name, info in shipped_info().items():
        errors = info.provenance.get("errors", {}).get("test", {})
        table.add_row(
            name,
            " ".join(info.elements),
            str(info.provenance.get("level_of_theory", "unknown")),
            _number(errors.get("force_mae_mev_per_a")),
            _number(errors.get("energy_mae_mev")),
            f"{info.provenance.get('parameters', 0):,}",
        )
    Console().print(table)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
