"""The scaling check as a table: sizes, cost of a step, what was learned, and the paper's numbers beside it."""

from collections.abc import Iterable, Sequence
from math import inf
from statistics import mean
from typing import Any

from cliffordstf.bench.literature.paper_values import paper_models, paper_value
from cliffordstf.bench.studies.scaling import FAMILIES, LAST, is_mark
from cliffordstf.bench.studies.scaling_timing import PARTS
from cliffordstf.bench.tables.formatting import circumstances, spread
from cliffordstf.bench.tables.table import Table

Results = Sequence[dict[str, Any]]

PAPER_LARGE = "10^7"
"""All that the paper says of the sizes of its large models; it counts the small ones."""


def scaling_tables(results: Iterable[dict[str, Any]]) -> list[Table]:
    """Two tables for every data file, number of updates and budget: what a step costs, and what was learned."""
    chosen = list(results)
    runs = [result for result in chosen if "budget_steps" in result]
    timings = [result for result in chosen if result.get("kind") == "timing"]
    tables = []
    for key in sorted({_setting(run) for run in runs}):
        mine = [run for run in runs if _setting(run) == key]
        tables += [_cost(mine, [timing for timing in timings if timing["frames"] == key[0]]), _learned(mine)]
    return tables


def _setting(run: dict[str, Any]) -> tuple[str, int, float]:
    """Data, updates, and seconds at most."""
    return run["frames"], run["budget_steps"], run.get("cut_after") or inf


def _cost(chosen: Results, timings: Results) -> Table:
    machines = " and ".join(sorted({_machine(result) for result in (*chosen, *timings)}))
    sizes = sorted({result["structures_a_step"] for result in chosen})
    table = Table(
        f"Scaling, cost of a training step with {_listed(sizes)} structures of {chosen[0]['frames']}: median "
        "(quartiles); side by side: in turn with the other size of the family, with and without the optimiser; "
        f"memory: growth of the process; {machines}",
        [
            "model",
            "parameters",
            "parameters, paper",
            "memory, MB",
            "step in its run, s",
            "step side by side, s",
            "large / small",
            "without optimiser, s",
            "large / small",
        ],
    )
    for recipe, mine in _rows(chosen).items():
        table.add(
            recipe,
            f"{mine[0]['parameters']:,}",
            _paper_parameters(mine[0]["model"]),
            _known(mine, "peak_memory_mb", 0),
            _seconds(mine),
            *(text for part in PARTS for text in _side_by_side(recipe, part, timings)),
        )
    return table


def _learned(runs: Results) -> Table:
    after, mean_of, chosen = _at_equal_steps(runs)
    table = Table(
        f"Scaling, after {after} on {runs[0]['frames']}: mean loss {mean_of}; validation energy MAE, meV / force MAE, "
        "meV/Å (force cosine). The paper, on other data: relaxed energy MAE; energy MAE, eV / force MAE, eV/Å (force "
        f"cosine). {circumstances(runs)}",
        ["model", "steps", "loss", "validation", "OC22 IS2RE, paper", "OC22 S2EF, paper", "OC20 S2EF, paper"],
    )
    for recipe, mine in _rows(chosen).items():
        model = mine[0]["model"]
        loss, errors = _known(mine, "last_loss", 4), _validation(mine)
        paper = (_paper_relaxed(model), _paper_forces("oc22", model), _paper_forces("oc20", model))
        table.add(
            _with_steps(recipe, mine), _listed(sorted({run["compared_at"] for run in mine})), loss, errors, *paper
        )
    measured = [result["validation"] for result in chosen if result["validation"]]
    table.add("baseline", "", "", _errors([_baseline(measured[0])]) if measured else "", "", "", "")
    return table


def _at_equal_steps(runs: Results) -> tuple[str, str, Results]:
    """After how many steps runs are compared, what their loss is a mean of, and the runs as they were there.

    A budget cuts runs where it finds them: then it is the last mark that every run of a family got to. Runs that did
    not even get to the first one have no errors.
    """
    asked, seconds = runs[0]["budget_steps"], runs[0].get("cut_after")
    if not any(map(_is_cut, runs)):
        return f"{asked} steps", f"of the last {LAST} steps", [{**run, "compared_at": asked} for run in runs]
    there: list[dict[str, Any]] = []
    for family in sorted({_family(run) for run in runs}):
        mine = [run for run in runs if _family(run) == family]
        marks = [_marks(run) for run in mine]
        common = min((max(reached) for reached in marks if reached), default=0)
        there += [_then(run, reached.get(common), common) for run, reached in zip(mine, marks, strict=True)]
    why = "the last mark that both sizes of a family got to" + (f" in {seconds / 60:g} min each" if seconds else "")
    return f"as many of {asked} steps as each row says ({why})", "since the validation before", there


def _is_cut(run: dict[str, Any]) -> bool:
    return not run["diverged"] and run["steps"] < run["budget_steps"]


def _with_steps(recipe: str, mine: Results) -> str:
    """The name of a row, with the steps that its runs got to if they were cut."""
    counts = sorted({run["steps"] for run in mine if _is_cut(run)})
    return f"{recipe} (cut after {_listed(counts)} steps)" if counts else recipe


def _marks(run: dict[str, Any]) -> dict[int, dict[str, float]]:
    """Validations of a run that every other run has too if it gets so far, by steps."""
    rows = {int(row["step"]): row for row in run["history"]}
    return {step: row for step, row in rows.items() if is_mark(step, run["budget_steps"])}


def _then(run: dict[str, Any], row: dict[str, float] | None, step: int) -> dict[str, Any]:
    """A run as it was at a validation on the way; without errors if it did not get there."""
    if row is None:
        return {**run, "compared_at": step, "last_loss": None, "validation": None}
    validation = {**run["validation"], **{name: row.get(f"valid_{name}") for name in _MEASURES}}
    return {**run, "compared_at": step, "last_loss": row["train_loss"], "validation": validation}


def _rows(chosen: Results) -> dict[str, Results]:
    """Results over seeds by what the tables call them, in the order of the rows."""
    recipes = dict.fromkeys(result["recipe"] for result in sorted(chosen, key=_order))
    return {recipe: [result for result in chosen if result["recipe"] == recipe] for recipe in recipes}


def _listed(values: Sequence[int]) -> str:
    return " or ".join(map(str, values))


def _machine(result: dict[str, Any]) -> str:
    machine = result["machine"]
    return f"{machine['accelerator'] or machine['processor']}, {machine['threads']} threads"


def _order(result: dict[str, Any]) -> tuple[int, str, int]:
    """Family by family, small before large; other models last."""
    return (*_family(result), result["parameters"])


def _family(result: dict[str, Any]) -> tuple[int, str]:
    """Place and name of a family; a model of none is one by itself."""
    known = [(number, name) for number, (name, pair) in enumerate(FAMILIES.items()) if result["model"] in pair]
    return known[0] if known else (len(FAMILIES), result["model"])


def _seconds(mine: Results) -> str:
    known = [result for result in mine if result["step_seconds"] is not None]
    if len(known) != 1:
        return _known(mine, "step_seconds", 3)
    return _with_quartiles(known[0]["step_seconds"], known[0]["step_quartiles"], 3)


def _side_by_side(recipe: str, part: str, timings: Results) -> tuple[str, str]:
    """Time of a part of an update, and how many times that of the small model it is."""
    for timing in timings:
        for size in ("small", "large"):
            if timing[size] == recipe:
                found, over = timing["seconds"][f"{size} {part}"], timing["ratios"][part]
                seconds = _with_quartiles(found["median"], found["quartiles"], 3)
                times = _with_quartiles(over["median"], (over["low"], over["high"]), 1)
                return seconds, times if size == "large" else ""
    return "", ""


def _with_quartiles(median: float, quartiles: Sequence[float], digits: int) -> str:
    low, high = quartiles
    return f"{median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def _known(mine: Results, name: str, digits: int) -> str:
    values = [float(result[name]) for result in mine if result[name] is not None]
    return spread(values, digits) if values else ""


def _validation(mine: Results) -> str:
    diverged = [result for result in mine if result["diverged"]]
    errors = _errors([result["validation"] for result in mine if result["validation"]])
    return ", ".join(filter(None, [errors, f"{len(diverged)} of {len(mine)} diverged" if diverged else ""]))


def _errors(metrics: Sequence[dict[str, Any]]) -> str:
    """Energy MAE, meV / force MAE, meV/Å (force cosine), without what the data do not label."""
    columns = {name: [m[name] for m in metrics if m.get(name) is not None] for name in _MEASURES}
    energy, forces, cosine = columns.values()
    parts = [spread(values, 2) for values in (energy, forces) if values]
    return " / ".join(parts) + (f" ({mean(cosine):.4f})" if cosine else "")


_MEASURES = ("energy_mae_mev", "force_mae_mev_per_a", "force_cosine")


def _baseline(metrics: dict[str, Any]) -> dict[str, Any]:
    """Errors of a constant energy and no forces."""
    forces = metrics.get("baseline_force_mae_mev_per_a")
    cosine = None if forces is None else 0.0
    return dict(zip(_MEASURES, (metrics.get("baseline_energy_mae_mev"), forces, cosine), strict=True))


def _paper_parameters(model: str) -> str:
    if model in paper_models("scaling"):
        return PAPER_LARGE
    found = paper_value("wallclock", model, "parameters")
    return "" if found is None else f"{found.value:,.0f}"


def _paper_relaxed(model: str) -> str:
    """Of the large models per atom, of the small ones per structure: the paper gives no common measure."""
    large, small = paper_value("scaling", model, "oc22 is2re per atom"), paper_value("oc22", model, "is2re val_id")
    if large is not None:
        return f"{large.value:g} eV/atom"
    return "" if small is None else f"{small.value:g} eV"


def _paper_forces(data: str, model: str) -> str:
    measures = ("energy", "forces", "cosine")
    found = [paper_value("scaling", model, f"{data} s2ef {name}") for name in measures]
    if None in found:
        found = [paper_value(data, model, f"s2ef val_id {name}") for name in measures]
    known = [value.value for value in found if value is not None]
    return f"{known[0]:g} / {known[1]:g} ({known[2]:g})" if len(known) == len(measures) else ""
