"""Runs whose loss stopped being a number: a result of their own, which no table of errors can show."""

from collections.abc import Sequence
from typing import Any

from cliffordstf.bench.tables.formatting import length, length_text
from cliffordstf.bench.tables.table import Table

_DATA = ("molecule", "target", "task", "frames", "source")
"""Labels that say which part of a benchmark a run belongs to."""


def finished(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results that came to an end, and so have errors."""
    return [result for result in results if not result.get("diverged")]


def diverged_tables(results: Sequence[dict[str, Any]]) -> list[Table]:
    """One table of the others, or none; those of the scaling check are rows of its own tables."""
    lost = [result for result in results if result.get("diverged") and result["benchmark"] != "scaling"]
    table = Table("Runs that diverged", ["model", "data", "length", "seed", "what happened"])
    for result in sorted(lost, key=lambda r: (r["benchmark"], r["recipe"], r["seed"])):
        data = [result["benchmark"], *(str(result[name]) for name in _DATA if name in result)]
        row = (result["recipe"], " ".join(data), length_text(length(result)), str(result["seed"]), result["diverged"])
        table.add(*row)
    return [table] if lost else []
