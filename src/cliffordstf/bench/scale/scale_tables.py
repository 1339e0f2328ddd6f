"""The tables of what was measured past one process."""

from collections.abc import Mapping, Sequence
from typing import Any

from cliffordstf.bench.scale.large_set import large_set_table
from cliffordstf.bench.scale.ranks import ranks_tables
from cliffordstf.bench.scale.screening_walk import screening_table
from cliffordstf.bench.tables.table import Table


def scale_tables(results: Mapping[str, Sequence[dict[str, Any]]]) -> list[Table]:
    """Tables of the results that there are, by benchmark."""
    makers = {"screening": screening_table, "large set": large_set_table}
    tables = [make(results[name]) for name, make in makers.items() if results.get(name)]
    return [*tables, *(ranks_tables(results["ranks"]) if results.get("ranks") else [])]
