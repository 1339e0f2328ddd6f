"""rMD17: which runs there are, and the table with published numbers beside ours."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cliffordstf.bench.jobs.protocols import protocol_options, recipe_name
from cliffordstf.bench.jobs.sweep import file_name
from cliffordstf.bench.jobs.training_job import TrainingJob, length_name
from cliffordstf.bench.literature.published_values import RMD17_MOLECULES, rmd17, rmd17_models
from cliffordstf.bench.tables.formatting import (
    Length,
    baseline_errors,
    circumstances,
    errors,
    length,
    length_text,
    passes,
)
from cliffordstf.bench.tables.table import Table
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.options.text import did_you_mean
from cliffordstf.train.config import load_config

POOL = 1000
"""Frames of an official training split."""

SPLITS = 5
"""Official ones."""

LEVEL_OF_THEORY = "PBE/def2-SVP (revised MD17)"


def rmd17_job(
    data: Path,
    molecule: str,
    *,
    train: int = 950,
    budget: str = "20min",
    steps: int | None = None,
    seed: int = 0,
    split: int = 1,
    model: str = "default",
    protocol: str = "sound",
    overrides: Sequence[str] = (),
    label: str | None = None,
    benchmark: str = "rmd17",
) -> TrainingJob:
    """One run.

    Args:
        data: Folder of the data set, see `split_options`.
        molecule: For example `aspirin`.
        train: Training frames, out of the 1000 of the official split. With 900 or more the rest of them validates; with
            fewer nothing does, so that the run sees these frames and no others.
        budget: Training time.
        steps: Updates, in place of a budget.
        seed: Of weights, of the order of frames, and of which frames are taken.
        split: Official split, 1 to 5.
        model: Preset, or name of a peer.
        protocol: `sound`, `paper` or `recommended`, see `bench.jobs.protocols`.
        overrides: Further options of the run, as `train` takes them.
        label: What the table calls the run, by default the model; unless it is `sound`, the protocol is added.
        benchmark: Whose table it belongs to, `rmd17` or `ablation`.
    """
    if molecule not in RMD17_MOLECULES:
        raise ConfigError(
            f"rMD17 has no molecule '{molecule}'{did_you_mean(molecule, RMD17_MOLECULES)}; it has "
            f"{', '.join(RMD17_MOLECULES)}."
        )
    if not 1 <= split <= SPLITS:
        raise ConfigError(f"--split {split} must be between 1 and {SPLITS}, the official splits of rMD17.")
    if not 1 <= train <= POOL:
        raise ConfigError(f"--train {train} must be between 1 and {POOL}, the size of an official training split.")
    options = [
        *split_options(data, molecule, split),
        f"data.train_size={train if train < POOL else 'null'}",
        f"data.valid={POOL - train if train >= 900 else 0}",
        f"data.split_seed={seed}",
        f"seed={seed}",
        *((f"budget={budget}",) if steps is None else ("budget=null", f"steps={steps}")),
        f"level_of_theory={LEVEL_OF_THEORY}",
        f"model.preset={model}",
        *protocol_options(protocol, "rmd17", model),
        *overrides,
    ]
    recipe = recipe_name(protocol, model, label)
    labels = {
        "benchmark": benchmark,
        "molecule": molecule,
        "train": train,
        "split": split,
        "model": model,
        "protocol": protocol,
        "recipe": recipe,
        "overrides": list(overrides),
    }
    which = "" if split == 1 else f"-split{split}"
    config = load_config(None, options)
    name = f"{molecule}-{train}{which}-{file_name(recipe)}-{length_name(config)}-seed{seed}"
    return TrainingJob(name, labels, config)


def split_options(data: Path, molecule: str, split: int) -> list[str]:
    """Options that pick the official split of a molecule.

    Two layouts are known: that of the published archive (`npz_data/rmd17_NAME.npz` with `splits/index_train_01.csv`),
    and one file for each part (`rmd17_NAME_train_01.npz`, `rmd17_NAME_test_01.npz`).
    """
    parts = [data / f"rmd17_{molecule}_{part}_{split:02d}.npz" for part in ("train", "test")]
    if all(path.is_file() for path in parts):
        return [f"data.train={parts[0]}", f"data.test={parts[1]}"]
    whole = data / "npz_data" / f"rmd17_{molecule}.npz"
    indices = [data / "splits" / f"index_{part}_{split:02d}.csv" for part in ("train", "test")]
    if whole.is_file() and all(path.is_file() for path in indices):
        return [f"data.train={whole}", f"data.train_indices={indices[0]}", f"data.test_indices={indices[1]}"]
    raise DataError(
        f"{data} holds neither {parts[0].name} and {parts[1].name} nor npz_data/{whole.name} with splits/"
        f"{indices[0].name}; give the folder of the rMD17 archive with --data, or run cliffordstf data fetch rmd17."
    )


def rmd17_table(results: Iterable[dict[str, Any]], train: int) -> Table:
    """Ours by recipe and budget, published ones, and the baseline; energy MAE in meV / force MAE in meV/Å."""
    chosen = [result for result in results if result["train"] == train]
    columns = sorted({(length(result), result["recipe"]) for result in chosen}, key=lambda key: (key[1], key[0]))
    molecules = [molecule for molecule in RMD17_MOLECULES if any(r["molecule"] == molecule for r in chosen)]
    heads = [_head(each, recipe, [r for r in chosen if (length(r), r["recipe"]) == (each, recipe)])
             for each, recipe in columns]  # fmt: skip
    table = Table(
        f"rMD17, {train} training frames: test energy MAE, meV / force MAE, meV/Å (force cosine); "
        f"{circumstances(chosen)}",
        ["molecule", *heads, *rmd17_models(train), "baseline"],
    )
    for molecule in molecules:
        mine = [r for r in chosen if r["molecule"] == molecule]
        cells = [errors([r["metrics"] for r in mine if (length(r), r["recipe"]) == column]) for column in columns]
        others = [_pair(rmd17(train, model, molecule)) for model in rmd17_models(train)]
        table.add(molecule, *cells, *others, baseline_errors(mine[0]["metrics"]))
    return table


def _head(each: Length, recipe: str, results: Sequence[dict[str, Any]]) -> str:
    """Says how far a budget got if the protocol asks for a number of passes."""
    done = passes(results)
    return f"{recipe}, {length_text(each)}" + (f" ({done} passes)" if " of " in done else "")


def _pair(values: tuple[float, float] | None) -> str:
    return "" if values is None else f"{values[0]:g} / {values[1]:g}"
