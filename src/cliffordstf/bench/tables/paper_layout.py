"""Tables as the paper lays them out: its models in its order; below our numbers the paper's and published ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from cliffordstf.bench.literature.paper_values import Printed, paper_models, paper_value
from cliffordstf.bench.literature.published_values import published_value
from cliffordstf.bench.tables.formatting import circumstances, passes, rounds_done, short_commit, spread
from cliffordstf.bench.tables.table import Table

Result = dict[str, Any]
Number = Callable[[Result], float | None]
"""A number of a result; None if the result does not belong to the column."""


@dataclass(frozen=True)
class Column:
    """A column of one of the paper's tables.

    Attributes:
        head: With its unit.
        table, name: What it is called in the paper's table (`bench.literature.paper_values`).
        value: Ours.
        baseline: That of the baseline model.
        digits: Of ours and of the paper's.
        mean_of: Columns whose mean it is; then it has no value of its own.
    """

    head: str
    table: str
    name: str
    value: Number = lambda _: None
    baseline: Number = lambda _: None
    digits: tuple[int, int] = (3, 3)
    mean_of: tuple["Column", ...] = ()


def layout(
    title: str,
    results: Sequence[Result],
    columns: Sequence[Column],
    labels: Callable[[str], list[str]] | None = None,
    heads: Sequence[str] = (),
) -> Table:
    """One table.

    Args:
        title: What it shows.
        results: Of one budget and protocol.
        columns: Of numbers.
        labels, heads: What stands between a model's name and its numbers, if anything, and its titles.
    """
    said = "; ".join(filter(None, [title, circumstances(results)]))
    table = Table(said, ["model", *heads, *(column.head for column in columns)])
    empty = [""] * len(heads)
    for recipe in _ordered(results, columns[0].table):
        mine = [result for result in results if result["recipe"] == recipe]
        model = str(mine[0]["model"])
        about = labels(model) if labels else []
        table.add(f"{recipe} ({passes(mine)} passes)", *about, *(_ours(mine, column) for column in columns))
        printed = [paper_value(column.table, model, column.name) for column in columns]
        if any(printed):
            cells = (_printed(value, column.digits[1]) for value, column in zip(printed, columns, strict=True))
            table.add(f"{recipe}, paper", *empty, *cells)
        others = [published_value(column.table, model, column.name, mine[0].get("train")) for column in columns]
        if any(value is not None for value in others):
            table.add(f"{recipe}, published", *empty, *("" if value is None else f"{value:g}" for value in others))
    table.add("baseline", *empty, *(_baseline(results, column) for column in columns))
    return table


def _ordered(results: Sequence[Result], table: str) -> list[str]:
    """Recipes: those of models that the paper does not have first, then the paper's order."""
    order = {model: number for number, model in enumerate(paper_models(table))}
    found = {r["recipe"]: _place(order, r["model"]) for r in results}
    return sorted(found, key=lambda recipe: (found[recipe], recipe))


def _place(order: dict[str, int], model: str) -> int:
    return next((order[name] for name in (model, model.rpartition("-")[0]) if name in order), -1)


def _values(results: Sequence[Result], number: Number) -> list[float]:
    return [value for value in map(number, results) if value is not None]


def _ours(mine: Sequence[Result], column: Column) -> str:
    """Mean and spread over seeds; of a mean of columns only where all of them are measured.

    Its spread is over the seeds that every column has; if that is one or none, it has none.
    """
    digits = column.digits[0]
    if not column.mean_of:
        values = _values(mine, column.value)
        return spread(values, digits) if values else ""
    parts = [_values(mine, part.value) for part in column.mean_of]
    if not all(parts):
        return ""
    by_seed = [_mean_of_seed([r for r in mine if r.get("seed") == seed], column) for seed in _seeds(mine)]
    complete = [value for value in by_seed if value is not None]
    return spread(complete, digits) if len(complete) > 1 else f"{mean(map(mean, parts)):.{digits}f}"


def _seeds(results: Sequence[Result]) -> list[int | None]:
    return sorted({result.get("seed") for result in results}, key=lambda seed: -1 if seed is None else seed)


def _mean_of_seed(mine: Sequence[Result], column: Column) -> float | None:
    """Mean of the columns for results of one seed; None if one of them is not measured with it."""
    parts = [_values(mine, part.value) for part in column.mean_of]
    return mean(map(mean, parts)) if all(parts) else None


def _baseline(results: Sequence[Result], column: Column) -> str:
    parts = [_values(results, part.baseline) for part in column.mean_of or (column,)]
    return f"{mean(found[0] for found in parts):.{column.digits[1]}f}" if all(parts) else ""


def _printed(value: Printed | None, digits: int) -> str:
    if value is None:
        return ""
    text = f"{value.value:.{digits}f}"
    return text if value.std is None else f"{text} ± {value.std:.{digits}f}"


def wall_clock_layout(results: Result, structures: int) -> Table:
    """Structures a second by `bench speed` in the paper's order, beside the paper's.

    The paper also prints the seconds of a "step", but these times its structures a second are about 900 structures in
    training and 100 in inference: a pass over its data, not a batch.

    Args:
        results: Of `bench speed`.
        structures: In a step.
    """
    machine = results["machine"]
    table = Table(
        f"Wall-clock, aspirin, {structures} structures a step, structures per second: ours on {machine['processor']}, "
        f"{machine['threads']} threads, commit {short_commit(results['commit'], 9)}{rounds_done(results)}; the paper's "
        "on a GPU",
        ["model", "parameters", "training", "inference", "parameters, paper", "training, paper", "inference, paper"],
    )
    rows = {row["name"]: row for row in results["rows"]}
    printed = [model for model in paper_models("wallclock") if model in rows]
    for name in [*printed, *(other for other in rows if other not in printed)]:
        times = [rows[name][f"{kind}_ms"] for kind in ("training", "inference")]
        rates = ["" if time is None else f"{1000 * structures / time:.0f}" for time in times]
        columns = ("parameters", "training_per_s", "inference_per_s")
        found = [paper_value("wallclock", name, column) for column in columns]
        theirs = ["" if value is None else f"{value.value:,.0f}" for value in found]
        table.add(name, f"{rows[name]['parameters']:,}", *rates, *theirs)
    return table
