"""The paper's rMD17 and wall-clock tables as it lays them out, with its numbers below ours."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from cliffordstf.bench.numbers import spread
from cliffordstf.bench.paper import Printed, paper_models, paper_value
from cliffordstf.bench.published import RMD17_MOLECULES, published_family, rmd17
from cliffordstf.bench.table import Table

AGGREGATE = "aggregate"


@dataclass(frozen=True)
class Quantity:
    """One of the paper's three tables on rMD17.

    Attributes:
        source: Name of the paper's table.
        metric, zero: Names of the metric and of that of the zero-information model, which for None is 0.
        title: With units.
        digits: Of ours and of the paper's.
        published: Which of two published numbers, energy and forces, it is.
    """

    source: str
    metric: str
    zero: str | None
    title: str
    digits: tuple[int, int]
    published: int | None


QUANTITIES = (
    Quantity("rmd17_cosine", "force_cosine", None, "force cosine", (5, 3), None),
    Quantity("rmd17_forces", "force_mae_mev_per_a", "zero_force_mae_mev_per_a", "force MAE, meV/Å", (2, 0), 1),
    Quantity("rmd17_energy", "energy_mae_mev", "zero_energy_mae_mev", "energy MAE, meV", (2, 0), 0),
)


def rmd17_layout(results: Iterable[dict[str, Any]]) -> list[Table]:
    """Force cosine, force error and energy error, once for every size of training set, budget and protocol."""
    chosen = list(results)
    settings = sorted({(r["train"], r["budget"], r["protocol"]) for r in chosen}, reverse=True)
    return [
        _by_molecule([r for r in chosen if (r["train"], r["budget"], r["protocol"]) == setting], quantity)
        for setting in settings
        for quantity in QUANTITIES
    ]


def _by_molecule(results: Sequence[dict[str, Any]], quantity: Quantity) -> Table:
    """The paper's models in its order, ours and others before and behind them."""
    first = results[0]
    kcal = "" if quantity.zero is None else "; the paper's numbers times 43.364, as it prints kcal/mol for meV"
    table = Table(
        f"rMD17 {quantity.title}, {first['train']} training frames, {first['budget'] / 60:g} min each, protocol "
        f"{first['protocol']}{kcal}",
        ["model", *RMD17_MOLECULES, AGGREGATE],
    )
    for recipe in _ordered(results):
        mine = [r for r in results if r["recipe"] == recipe]
        table.add(recipe, *_ours(mine, quantity))
        model = mine[0]["model"]
        printed = [paper_value(quantity.source, model, column) for column in (*RMD17_MOLECULES, AGGREGATE)]
        if any(printed):
            table.add(f"{recipe}, paper", *(_printed(value, quantity.digits[1]) for value in printed))
        published = [_published(model, molecule, first["train"], quantity) for molecule in RMD17_MOLECULES]
        if any(published):
            table.add(f"{recipe}, published", *published, "")
    table.add("zero row", *_zeros(results, quantity))
    return table


def _ordered(results: Iterable[dict[str, Any]]) -> list[str]:
    """Recipes: those of models that the paper does not have first, then the paper's order."""
    order = {model: number for number, model in enumerate(paper_models("rmd17_cosine"))}
    found = {r["recipe"]: order.get(r["model"].removesuffix("-md17"), -1) for r in results}
    return sorted(found, key=lambda recipe: (found[recipe], recipe))


def _ours(mine: Sequence[dict[str, Any]], quantity: Quantity) -> list[str]:
    """By molecule over seeds, and the mean of all molecules where all are measured."""
    values = {
        molecule: [float(r["metrics"][quantity.metric]) for r in mine if r["molecule"] == molecule]
        for molecule in RMD17_MOLECULES
    }
    cells = [spread(found, quantity.digits[0]) if found else "" for found in values.values()]
    is_whole = all(values.values())
    return [*cells, f"{mean(map(mean, values.values())):.{quantity.digits[0]}f}" if is_whole else ""]


def _zeros(results: Sequence[dict[str, Any]], quantity: Quantity) -> list[str]:
    if quantity.zero is None:
        return ["0"] * (len(RMD17_MOLECULES) + 1)
    found = {r["molecule"]: float(r["metrics"][quantity.zero]) for r in results}
    cells = [f"{found[molecule]:.0f}" if molecule in found else "" for molecule in RMD17_MOLECULES]
    return [*cells, f"{mean(found.values()):.0f}" if len(found) == len(RMD17_MOLECULES) else ""]


def _printed(value: Printed | None, digits: int) -> str:
    if value is None:
        return ""
    text = f"{value.value:.{digits}f}"
    return text if value.std is None else f"{text} ± {value.std:.{digits}f}"


def _published(model: str, molecule: str, train: int, quantity: Quantity) -> str:
    family = published_family(model)
    if family is None or quantity.published is None:
        return ""
    found = rmd17(train, family, molecule)
    return "" if found is None else f"{found[quantity.published]:g}"


def wall_clock_layout(results: dict[str, Any], structures: int) -> Table:
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
        f"{machine['threads']} threads, commit {results['commit'][:9]}; the paper's on a GPU",
        ["model", "parameters", "training", "inference", "parameters, paper", "training, paper", "inference, paper"],
    )
    rows = {row["name"]: row for row in results["rows"]}
    printed = [model for model in paper_models("wallclock") if model in rows]
    for name in [*printed, *(other for other in rows if other not in printed)]:
        rates = [1000 * structures / rows[name][f"{kind}_ms"] for kind in ("training", "inference")]
        columns = ("parameters", "training_per_s", "inference_per_s")
        found = [paper_value("wallclock", name, column) for column in columns]
        theirs = ["" if value is None else f"{value.value:,.0f}" for value in found]
        table.add(name, f"{rows[name]['parameters']:,}", *(f"{rate:.0f}" for rate in rates), *theirs)
    return table
