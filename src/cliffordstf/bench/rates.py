"""Which learning rate a model wants in a short run: judged by validation frames, so that test sets stay unseen."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cliffordstf.bench.cells import Cell
from cliffordstf.bench.numbers import Length, circumstances, errors, length, said_length, zero_errors
from cliffordstf.bench.protocols import sound_rate
from cliffordstf.bench.published import RMD17_MOLECULES
from cliffordstf.bench.rmd17 import rmd17_cell
from cliffordstf.bench.table import Table


def rates_cell(
    data: Path,
    molecule: str,
    model: str,
    rate: float,
    *,
    budget: str = "3min",
    seed: int = 0,
    overrides: Sequence[str] = (),
) -> Cell:
    """A short run on rMD17 with a learning rate, as `rmd17_cell` makes it, but without its test set."""
    unseen = ("data.test=0", "data.test_indices=null")
    options = (f"optimizer.learning_rate={rate:g}", *unseen, *overrides)
    label = f"{model} rate {rate:g}"
    cell = rmd17_cell(
        data,
        molecule,
        budget=budget,
        seed=seed,
        model=model,
        overrides=options,
        label=label,
        benchmark="rates",
    )
    return replace(cell, judged_by="validation")


def rates_table(results: Iterable[dict[str, Any]], molecule: str, each: Length) -> Table:
    """Models by learning rate, and the rate that `sound` takes since."""
    chosen = [r for r in results if (r["molecule"], length(r)) == (molecule, each)]
    rates = sorted({_rate(result) for result in chosen})
    table = Table(
        f"Learning rates, rMD17 {molecule}, {chosen[0]['train']} training frames, {said_length(each)} each, protocol "
        "sound: validation energy MAE, meV / force MAE, meV/Å (force cosine); nothing where a run diverged or was not "
        f"made; {circumstances(chosen)}",
        ["model", *(f"{rate:g}" for rate in rates), "taken"],
    )
    for model in dict.fromkeys(result["model"] for result in chosen):
        mine = [result for result in chosen if result["model"] == model]
        cells = [errors([r["metrics"] for r in mine if _rate(r) == rate]) for rate in rates]
        taken = sound_rate(model)
        table.add(model, *cells, "ours" if taken is None else f"{taken:g}")
    table.add("zero row", *([zero_errors(chosen[0]["metrics"])] * len(rates)), "")
    return table


def rates_tables(results: Sequence[dict[str, Any]]) -> list[Table]:
    """One for every molecule and budget."""
    keys = {(result["molecule"], length(result)) for result in results}
    ordered = sorted(keys, key=lambda key: (RMD17_MOLECULES.index(key[0]), key[1]))
    return [rates_table(results, molecule, each) for molecule, each in ordered]


def _rate(result: dict[str, Any]) -> float:
    return float(result["config"]["optimizer"]["learning_rate"])
