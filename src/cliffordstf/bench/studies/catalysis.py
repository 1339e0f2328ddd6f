"""Open Catalyst 2020 and 2022: relaxed energies from initial structures (IS2RE), energies and forces (S2EF)."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from cliffordstf.bench.jobs.data_digests import listing_digest
from cliffordstf.bench.jobs.protocols import protocol_options, recipe_name
from cliffordstf.bench.jobs.sweep import file_name
from cliffordstf.bench.jobs.training_job import TrainingJob, divided, length_name
from cliffordstf.bench.literature.paper_values import paper_value
from cliffordstf.bench.literature.published_values import published_value
from cliffordstf.bench.tables.formatting import (
    by_baseline,
    circumstances,
    length,
    length_text,
    passes,
    sizes,
    split_head,
    spread,
)
from cliffordstf.bench.tables.table import Table
from cliffordstf.data.readers import oc20_shards
from cliffordstf.data.readers.detect import expand, find_reader
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.host.budget import USUAL_BUDGET
from cliffordstf.options.text import did_you_mean
from cliffordstf.train.config import load_config

Task = Literal["is2re", "s2ef"]
Energy = Literal["adsorption", "total"]
USUAL: dict[str, Energy] = {"oc20": "adsorption", "oc22": "total"}
"""Which energies the official evaluation, and so the paper, means."""

_USUAL_REFERENCE: dict[Energy, str] = {"adsorption": "mean", "total": "auto"}
"""Slab and gas are taken off adsorption energies already: what is left is no sum over elements."""


def catalysis_job(
    benchmark: Literal["oc20", "oc22"],
    task: str,
    train: Path,
    tests: Mapping[str, Path | float],
    *,
    valid: Path | None = None,
    reference: Path | None = None,
    energy: Energy | None = None,
    system_reference: Path | None = None,
    budget: str = "30min",
    seed: int = 0,
    model: str = "default",
    protocol: str = "sound",
    overrides: Sequence[str] = (),
    label: str | None = None,
) -> TrainingJob:
    """One run.

    Args:
        benchmark, task: Which.
        train: LMDB file or folder, raw shards, relaxations (.traj) or ASE-LMDB.
        tests: Splits to test on, for example `val_id`, by name; one of them may be a share of the training data, at
            random.
        valid: Validation set; by default a twentieth of the training set.
        reference: Linear reference energies (.npz) to take off; by default they are fitted to total energies, and the
            mean is taken off adsorption energies.
        energy: Adsorption energies, by default for OC20, or total ones, by default for OC22. LMDB files of OC20 hold
            adsorption energies; shards have both; of relaxations and ASE-LMDB the system's energy has to be taken off.
        system_reference: Energies by system (oc20_ref.pkl), for adsorption energies of the latter.
        budget, seed, model, protocol, overrides, label: As for `rmd17_job`. S2EF learns and measures forces on free
            atoms only, as the official evaluation does.
    """
    if task not in get_args(Task):
        raise ConfigError(
            f"there is no task '{task}'{did_you_mean(task, get_args(Task))}; choose is2re (relaxed energy) or s2ef "
            "(energy and forces)."
        )
    files, held_out, share = divided(tests)
    paths = [train, *files.values(), *([valid] if valid else [])]
    if missing := [path for path in paths if not _exists(path)]:
        raise DataError(f"{missing[0]} does not exist; check the paths of the splits.")
    is_sure = energy is not None or system_reference is not None
    energy = energy or USUAL[benchmark]
    _check_one_kind_of_energy(benchmark, energy, paths, is_sure)
    if task == "is2re":
        _check_relaxed_energies(paths)
    options = [
        f"data.train={train}",
        *_energy_options(energy, train, system_reference),
        *(["data.relaxations=true"] if task == "is2re" and _has_totals(train) else []),
        f"data.valid={valid if valid is not None else 0.05}",
        f"data.test={share:g}",
        f"data.split_seed={seed}",
        f"data.reference={reference if reference is not None else _USUAL_REFERENCE[energy]}",
        f"data.free_atoms_only={'true' if task == 's2ef' else 'false'}",
        f"seed={seed}",
        f"budget={budget}",
        f"model.preset={model}",
        *protocol_options(protocol, f"{benchmark} {task}", model),
        *overrides,
    ]
    recipe = recipe_name(protocol, model, label)
    labels = {
        "benchmark": benchmark,
        "task": task,
        "model": model,
        "protocol": protocol,
        "recipe": recipe,
        "overrides": list(overrides),
        "energy": energy,
        "source": train.name,
        "splits": {name: split.name if isinstance(split, Path) else split for name, split in tests.items()},
        "validation": valid.name if valid else None,
        # Splits of several sizes are all called train.
        "listings": [listing_digest(path) for path in paths],
        "reference": reference.name if reference else None,
    }
    config = load_config(None, options)
    name = f"{benchmark}-{task}-{file_name(recipe)}-{length_name(config)}-seed{seed}"
    return TrainingJob(name, labels, config, files, held_out)


def _exists(path: Path) -> bool:
    return path.exists() or any(letter in str(path) for letter in "*?[")


def _energy_options(energy: Energy, train: Path, system_reference: Path | None) -> list[str]:
    """Options that make the labels what they should be."""
    if energy == "total":
        return []
    if any(oc20_shards.side_file(file) for file in expand(train)):
        return [f"data.keys.energy={oc20_shards.ADSORPTION}"]
    if system_reference is not None:
        return [f"data.system_reference={system_reference}"]
    if _has_totals(train):
        raise ConfigError(
            f"{train.name} holds total energies; give those of the systems with --system-reference oc20_ref.pkl, or "
            "learn total energies with --energy total."
        )
    return []


def _check_one_kind_of_energy(benchmark: str, energy: Energy, paths: Sequence[Path], is_sure: bool) -> None:
    """Files of OC20 hold different energies; how to read them is decided for all of them at once.

    Args:
        benchmark, energy: Which.
        paths: Of all splits.
        is_sure: Whether somebody has said what files hold that do not say it themselves.
    """
    if benchmark == "oc22":
        return  # total energies in every format
    kinds = {path: _kind(path) for path in paths}
    if energy == "total":
        kinds = {path: "LMDB files" if kind == "LMDB files" else "total energies" for path, kind in kinds.items()}
    elif not is_sure and (unknown := next((path for path, kind in kinds.items() if kind == _UNKNOWN), None)):
        raise ConfigError(
            f"{unknown.name} does not say whether its energies are adsorption energies: it is no LMDB file of OC20, no "
            "shard (N.extxyz with its N.txt beside it) and no relaxation; complete it, or say so with --energy "
            "adsorption or --energy total."
        )
    train, *others = kinds
    if different := next((path for path in others if kinds[path] != kinds[train]), None):
        raise ConfigError(
            f"{train.name} ({kinds[train]}) and {different.name} ({kinds[different]}) do not hold the same kind of "
            "energy; give all splits in the same format."
        )


def _kind(path: Path) -> str:
    if any(oc20_shards.side_file(file) for file in expand(path)):
        return "raw shards"
    if _has_totals(path):
        return "relaxations"
    first = expand(path)[0]
    return "LMDB files" if find_reader(first)(first, 1, USUAL_BUDGET).format.startswith("Open Catalyst") else _UNKNOWN


_UNKNOWN = "other files"


def _check_relaxed_energies(paths: Sequence[Path]) -> None:
    """Frames of S2EF do not know the energy that their relaxation ends with."""
    for path in paths:
        first = expand(path)[0]
        if not _has_totals(path) and not find_reader(first)(first, 1, USUAL_BUDGET).format.endswith("(IS2RE)"):
            raise ConfigError(
                f"{path.name} holds single frames, not relaxed energies; for is2re give LMDB files of IS2RE, or "
                "relaxations (.traj, .aselmdb, .db)."
            )


def _has_totals(path: Path) -> bool:
    """Whether these are relaxations as ASE writes them; files of the Open Catalyst Project have their own labels."""
    return any(file.suffix in (".traj", ".aselmdb", ".db") for file in expand(path))


def catalysis_tables(results: Iterable[dict[str, Any]], benchmark: str, task: str) -> list[Table]:
    """One for each protocol, kind of energy and way to take references off: these decide what knowing nothing means."""
    groups = by_baseline(r for r in results if (r["benchmark"], r["task"]) == (benchmark, task))
    return [_catalysis_table(chosen, benchmark, task, setting) for setting, chosen in groups.items()]


def _catalysis_table(chosen: Sequence[dict[str, Any]], benchmark: str, task: str, setting: str) -> Table:
    """A row for each recipe; for each split ours, the paper's and what is published."""
    splits = list(dict.fromkeys(name for result in chosen for name in result["tests"]))
    forces = "energy MAE, eV / force MAE, eV/Å (cosine; ours also EFwT: energy within 0.02 eV, forces within 0.03 eV/Å)"
    what = "energy MAE, eV (EwT: within 0.02 eV)" if task == "is2re" else forces
    heads = ["model", "parameters", "budget", "passes"]
    for split in splits:
        measured = [r["tests"][split] for r in chosen if split in r["tests"]]
        heads += [split_head(split, measured), f"{split}, paper", f"{split}, published"]
    title = f"{benchmark.upper()} {task.upper()}{sizes(chosen)}"
    table = Table(f"{title}, {setting}: {what}; {circumstances(chosen)}", heads)
    cell = _relaxed if task == "is2re" else _forces
    for recipe, each in sorted({(r["recipe"], length(r)) for r in chosen}):
        mine = [r for r in chosen if (r["recipe"], length(r)) == (recipe, each)]
        cells = [recipe, f"{mine[0]['parameters']:,}", length_text(each), passes(mine)]
        for split in splits:
            found = [r["tests"][split] for r in mine if split in r["tests"]]
            is_usual = mine[0].get("energy", USUAL[benchmark]) == USUAL[benchmark]
            elsewhere = _known_elsewhere(benchmark, task, mine[0]["model"], split) if is_usual else ("", "")
            cells += [cell(found) if found else "", *elsewhere]
        table.add(*cells)
    baseline = ["baseline", "", "", ""]
    for split in splits:
        baseline += [_baseline(next(r["tests"][split] for r in chosen if split in r["tests"]), task), "", ""]
    table.add(*baseline)
    return table


def _relaxed(metrics: list[dict[str, Any]]) -> str:
    energy = spread([m["energy_mae_mev"] / 1000 for m in metrics], 3)
    within = spread([100 * m["energy_within_threshold"] for m in metrics], 1)
    return f"{energy} ({within} %)"


def _forces(metrics: list[dict[str, Any]]) -> str:
    energy = spread([m["energy_mae_mev"] / 1000 for m in metrics], 3)
    forces = spread([m["force_mae_mev_per_a"] / 1000 for m in metrics], 4)
    within = spread([100 * m["energy_and_forces_within_threshold"] for m in metrics], 1)
    return f"{energy} / {forces} ({spread([m['force_cosine'] for m in metrics], 3)}; {within} %)"


def _baseline(metrics: dict[str, Any], task: str) -> str:
    energy = f"{metrics['baseline_energy_mae_mev'] / 1000:.3f}"
    return energy if task == "is2re" else f"{energy} / {metrics['baseline_force_mae_mev_per_a'] / 1000:.4f} (0)"


def _known_elsewhere(benchmark: str, task: str, model: str, split: str) -> tuple[str, str]:
    """What the paper prints, and what is published at the settings that a model's authors recommend."""
    names = [f"is2re {split}"] if task == "is2re" else [f"s2ef {split} {kind}" for kind in _KINDS]
    printed = [paper_value(benchmark, model, name) for name in names]
    published = [published_value(benchmark, model, name) for name in names]
    return _joined([None if p is None else p.value for p in printed]), _joined(published)


_KINDS = ("energy", "forces", "cosine")


def _joined(values: Sequence[float | None]) -> str:
    """`energy`, or `energy / forces (cosine)`, with a dash for what is not known; nothing if nothing is."""
    if all(value is None for value in values):
        return ""
    energy, *rest = ("-" if value is None else f"{value:g}" for value in values)
    return f"{energy} / {rest[0]} ({rest[1]})" if rest else energy
