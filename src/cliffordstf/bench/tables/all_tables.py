"""Which tables a folder of results makes."""

from typing import Any

from cliffordstf.bench.scale.scale_tables import scale_tables
from cliffordstf.bench.speed.against.comparison_table import against_table
from cliffordstf.bench.speed.speed_tables import speed_tables
from cliffordstf.bench.studies.acac import acac_table
from cliffordstf.bench.studies.catalysis import catalysis_tables
from cliffordstf.bench.studies.learning_rates import rates_tables
from cliffordstf.bench.studies.nve import nve_table
from cliffordstf.bench.studies.own_data import own_tables
from cliffordstf.bench.studies.physics import physics_table
from cliffordstf.bench.studies.rmd17 import rmd17_table
from cliffordstf.bench.studies.scalar_targets import scalar_tables
from cliffordstf.bench.tables.ablation import ablation_table
from cliffordstf.bench.tables.ablation_claims import claims_table
from cliffordstf.bench.tables.diverged_runs import diverged_tables, finished
from cliffordstf.bench.tables.formatting import length, machine_of
from cliffordstf.bench.tables.leaderboard import leaderboard
from cliffordstf.bench.tables.scaling_table import scaling_tables
from cliffordstf.bench.tables.table import Table

MANY = 4
"""From so many models on, models are rows and molecules are columns."""


BENCHMARKS = (
    "rmd17", "ablation", "qm9", "molecule3d", "oc20", "oc22", "acac", "nve", "scaling", "physics", "rates", "own",
    "screening", "large set", "ranks"
)  # fmt: skip
"""What results may say that they belong to."""


def all_tables(results: list[dict[str, Any]]) -> list[Table]:
    """The tables of results that may belong to several benchmarks, and at the end the runs that are in none of them."""
    tables: list[Table] = []
    of = {name: [r for r in finished(results) if r.get("benchmark") == name] for name in BENCHMARKS}
    # Spreads are over seeds: another split is another table.
    for size, split in sorted({(-r["train"], r.get("split", 1)) for r in of["rmd17"]}):
        own = [r for r in of["rmd17"] if (-r["train"], r.get("split", 1)) == (size, split)]
        tables.extend(_rmd17_tables(own, -size))
    for each in sorted({length(result) for result in of["ablation"]}):
        claims = claims_table(of["ablation"], each)
        tables += [ablation_table(of["ablation"], each), *([claims] if claims.rows else [])]
    for name in ("qm9", "molecule3d"):
        tables.extend(scalar_tables(of[name], name))
    for name in ("oc20", "oc22"):
        tasks = sorted({result["task"] for result in of[name]})
        for task in tasks:
            tables.extend(catalysis_tables(of[name], name, task))
    tables.extend(own_tables(of["own"]))
    if of["acac"]:
        tables.append(acac_table(of["acac"]))
    if of["nve"]:
        tables.append(nve_table(of["nve"]))
    tables.extend(scaling_tables([r for r in results if r.get("benchmark") == "scaling"]))  # diverged ones are rows too
    if of["physics"]:
        tables.append(physics_table(of["physics"]))
    tables.extend(rates_tables(of["rates"]))
    tables.extend(scale_tables(of))
    for result in results:
        if "roofline" in result:
            tables.extend(speed_tables(result))
        if "against" in result:
            tables.append(against_table(result))
    return [*tables, *diverged_tables(results)]


def _rmd17_tables(results: list[dict[str, Any]], train: int) -> list[Table]:
    """A table by molecules of few models, or leaderboards of many: equal times are equal on one machine only."""
    if len({result["model"] for result in results}) < MANY:
        return [rmd17_table(results, train)]
    settings = sorted({(length(r), r["protocol"], machine_of(r)) for r in results})
    return [
        leaderboard([r for r in results if machine_of(r) == machine], train, each, protocol)
        for each, protocol, machine in settings
    ]
