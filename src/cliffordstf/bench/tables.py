"""Which tables a folder of results makes."""

from typing import Any

from cliffordstf.bench.acac import acac_table
from cliffordstf.bench.nve import nve_table
from cliffordstf.bench.rmd17 import rmd17_table
from cliffordstf.bench.speed_tables import speed_tables
from cliffordstf.bench.table import Table


def all_tables(results: list[dict[str, Any]]) -> list[Table]:
    """The tables of results that may belong to several benchmarks."""
    tables: list[Table] = []
    of = {name: [r for r in results if r.get("benchmark") == name] for name in ("rmd17", "acac", "nve")}
    for size in sorted({result["train"] for result in of["rmd17"]}, reverse=True):
        tables.append(rmd17_table(of["rmd17"], size))
    if of["acac"]:
        tables.append(acac_table(of["acac"]))
    if of["nve"]:
        tables.append(nve_table(of["nve"]))
    for result in results:
        if "roofline" in result:
            tables.extend(speed_tables(result))
    return tables
