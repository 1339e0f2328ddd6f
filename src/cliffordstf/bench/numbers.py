"""How errors are written in tables."""

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any


def spread(values: Sequence[float], digits: int) -> str:
    """Mean, and standard deviation over seeds if there are several."""
    text = f"{mean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ± {stdev(values):.{digits}f}"


def errors(metrics: Sequence[dict[str, Any]]) -> str:
    """Energy MAE, meV / force MAE, meV/Å (force cosine), over seeds; nothing for no runs."""
    if not metrics:
        return ""
    energy, forces = (
        spread([float(m[name]) for m in metrics], 2) for name in ("energy_mae_mev", "force_mae_mev_per_a")
    )
    return f"{energy} / {forces} ({mean(float(m['force_cosine']) for m in metrics):.5f})"


def zero_errors(metrics: dict[str, Any]) -> str:
    """The same of the zero-information model: a constant energy and no forces."""
    return f"{metrics['zero_energy_mae_mev']:.0f} / {metrics['zero_force_mae_mev_per_a']:.0f} (0)"
