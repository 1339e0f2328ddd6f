"""Models side by side on structures of one's own: the same data, budget and seeds for all."""

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

from cliffordstf.bench.jobs.data_digests import data_digest
from cliffordstf.bench.jobs.protocols import protocol_options
from cliffordstf.bench.jobs.sweep import file_name
from cliffordstf.bench.jobs.training_job import TrainingJob, divided, length_name
from cliffordstf.bench.tables.formatting import (
    by_baseline,
    circumstances,
    length,
    length_text,
    passes,
    split_head,
    spread,
    step_rate,
)
from cliffordstf.bench.tables.table import Table
from cliffordstf.data.readers.detect import expand
from cliffordstf.train.config import load_config


def own_data_job(
    train: Path,
    tests: Mapping[str, Path | float],
    *,
    valid: Path | None = None,
    budget: str = "10min",
    seed: int = 0,
    model: str = "default",
    overrides: Sequence[str] = (),
    label: str | None = None,
) -> TrainingJob:
    """One run of protocol `sound`.

    Args:
        train: Any file, folder or pattern that `train` reads.
        tests: Test sets by name; one of them may be a share of the training data, at random.
        valid: Validation set; by default a twentieth of the training data.
        budget, seed, model, overrides, label: As for `rmd17_job`.
    """
    files, held_out, share = divided(tests)
    for path in (train, *files.values(), *([valid] if valid else [])):
        expand(path)  # says what is missing before anything is trained
    options = [
        f"data.train={train}",
        f"data.valid={valid if valid is not None else 0.05}",
        f"data.test={share:g}",
        f"data.split_seed={seed}",
        f"seed={seed}",
        f"budget={budget}",
        f"model.preset={model}",
        *protocol_options("sound", "own", model),
        *overrides,
    ]
    config = load_config(None, options)
    recipe = label or model
    labels = {
        "benchmark": "own",
        "source": train.name,
        "model": model,
        "protocol": "sound",
        "recipe": recipe,
        "overrides": list(overrides),
        "splits": {name: split.name if isinstance(split, Path) else split for name, split in tests.items()},
        "validation": valid.name if valid else None,
        # Files of one name may lie in many folders.
        "digests": [data_digest(path) for path in (train, *([valid] if valid else []), *files.values())],
    }
    source = file_name(train.stem) or file_name(train.parent.name)
    name = f"{source}-{file_name(recipe)}-{length_name(config)}-seed{seed}"
    return TrainingJob(name, labels, config, files, held_out)


def own_tables(results: Sequence[dict[str, Any]]) -> list[Table]:
    """One for every training set, length of the runs and way to take references off."""
    tables = []
    for source, each in sorted({(result["source"], length(result)) for result in results}):
        groups = by_baseline(r for r in results if (r["source"], length(r)) == (source, each))
        tables += [
            _table(chosen, f"{source}, {length_text(each)} each, {setting}") for setting, chosen in groups.items()
        ]
    return tables


def _table(chosen: Sequence[dict[str, Any]], title: str) -> Table:
    splits = list(dict.fromkeys(name for result in chosen for name in result["tests"]))
    heads = [split_head(split, [r["tests"][split] for r in chosen if split in r["tests"]]) for split in splits]
    table = Table(
        f"{title}: test energy MAE, meV/atom / force MAE, meV/Å (force cosine); {circumstances(chosen)}",
        ["model", "parameters", *heads, "steps/s", "passes"],
    )
    recipes = dict.fromkeys(r["recipe"] for r in sorted(chosen, key=lambda r: _order(r["tests"].get(splits[0]))))
    for recipe in recipes:
        mine = [result for result in chosen if result["recipe"] == recipe]
        errors = [_errors([r["tests"][split] for r in mine if split in r["tests"]]) for split in splits]
        table.add(recipe, f"{mine[0]['parameters']:,}", *errors, step_rate(mine), passes(mine))
    baselines = [_baseline(next(r["tests"][split] for r in chosen if split in r["tests"])) for split in splits]
    table.add("baseline", "", *baselines, "", "")
    return table


def _order(metrics: dict[str, Any] | None) -> float:
    """By forces, or without them by energies; what was not tested there comes last."""
    if metrics is None:
        return inf
    forces = metrics.get("force_mae_mev_per_a")
    return float(metrics["energy_mae_mev_per_atom"] if forces is None else forces)


def _errors(metrics: Sequence[dict[str, Any]]) -> str:
    """Over seeds, as far as there are labels."""
    kinds = (("energy_mae_mev_per_atom", 2), ("force_mae_mev_per_a", 2), ("force_cosine", 5))
    columns = [([float(m[name]) for m in metrics if m.get(name) is not None], digits) for name, digits in kinds]
    energy, forces, cosine = (spread(values, digits) if values else "-" for values, digits in columns)
    if not metrics:
        return ""
    return energy if forces == "-" else f"{energy} / {forces} ({cosine})"


def _baseline(metrics: dict[str, Any]) -> str:
    energy, forces = (metrics.get(f"baseline_{name}") for name in ("energy_mae_mev_per_atom", "force_mae_mev_per_a"))
    said = "-" if energy is None else f"{energy:.1f}"
    return said if forces is None else f"{said} / {forces:.0f} (0)"
