"""Acetylacetone: a potential trained at 300 K, asked about 600 K, a rotation and a proton that changes sides."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cliffordstf.bench.jobs.sweep import file_name
from cliffordstf.bench.jobs.training_job import TrainingJob, length_name
from cliffordstf.bench.tables.formatting import length, length_text, titled
from cliffordstf.bench.tables.table import Table
from cliffordstf.data.readers import read_frames
from cliffordstf.data.structure import symbol
from cliffordstf.errors import DataError
from cliffordstf.train.config import load_config

TESTS = {
    "MD 300 K": "test_MD_300K.xyz",
    "MD 600 K": "test_MD_600K.xyz",
    "dihedral scan": "test_dihedral.xyz",
    "H transfer": "test_H_transfer.xyz",
}


def acac_job(
    data: Path,
    *,
    budget: str = "20min",
    seed: int = 0,
    model: str = "default",
    overrides: Sequence[str] = (),
    label: str | None = None,
) -> TrainingJob:
    """Train on the 300 K trajectory, 450 of its 500 frames, and test on everything else.

    Args:
        data: Folder with `train_300K.xyz`, `isolated_atoms.xyz` and the files of `TESTS`.
        budget, seed, model, overrides, label: As for `rmd17_job`.
    """
    files = ("train_300K.xyz", "isolated_atoms.xyz", *TESTS.values())
    missing = [name for name in files if not (data / name).is_file()]
    if missing:
        raise DataError(
            f"{data} holds no {missing[0]}; give the folder of the acetylacetone files with --data, or run cliffordstf "
            "data fetch acac."
        )
    recipe = label or model
    options = [
        f"data.train={data / 'train_300K.xyz'}",
        "data.valid=50",
        f"data.split_seed={seed}",
        f"data.reference={_free_atoms(data / 'isolated_atoms.xyz')}",
        f"seed={seed}",
        f"budget={budget}",
        f"model.preset={model}",
        *overrides,
    ]
    labels = {"benchmark": "acac", "model": model, "recipe": recipe, "overrides": list(overrides)}
    tests = {name: data / file for name, file in TESTS.items()}
    config = load_config(None, options)
    return TrainingJob(f"acac-{file_name(recipe)}-{length_name(config)}-seed{seed}", labels, config, tests)


def _free_atoms(file: Path) -> dict[str, float]:
    frames, _ = read_frames(str(file))
    return {symbol(int(f.structure.numbers[0])): float(f.energy) for f in frames if f.energy is not None}


def acac_table(results: Sequence[dict[str, Any]]) -> Table:
    """Root mean square errors, the customary measure of this set, and those of the baseline."""
    title = (
        "Acetylacetone, trained at 300 K: RMSE of energy, meV / forces, meV/Å; scans: MAE of the energy above the "
        "scan's lowest point, meV"
    )
    table = Table(titled(title, results), ["recipe", *TESTS])
    rows = sorted(results, key=lambda result: (result["recipe"], length(result), result["seed"]))
    for result in rows:
        name = f"{result['recipe']}, {length_text(length(result))}, seed {result['seed']}"
        table.add(name, *(_cell(result["tests"][test]) for test in TESTS))
    if rows:
        table.add("baseline", *(_baseline(rows[0]["tests"][test]) for test in TESTS))
    return table


def _cell(metrics: dict[str, Any]) -> str:
    if "energy_ev" in metrics:
        return f"{scan_error(metrics):.1f}"
    return f"{metrics['energy_rmse_mev']:.2f} / {metrics['force_rmse_mev_per_a']:.2f}"


def _baseline(metrics: dict[str, Any]) -> str:
    if "energy_ev" in metrics:
        flat = {"energy_ev": [0.0] * len(metrics["energy_ev"]), "energy_label_ev": metrics["energy_label_ev"]}
        return f"{scan_error(flat):.0f}"
    return f"{metrics['baseline_energy_rmse_mev']:.0f} / {metrics['baseline_force_rmse_mev_per_a']:.0f}"


def scan_error(metrics: dict[str, Any]) -> float:
    """Mean absolute error of the energy above that of the scan's lowest true point, meV."""
    found, true = np.array(metrics["energy_ev"]), np.array(metrics["energy_label_ev"])
    lowest = int(true.argmin())
    return float(np.abs((found - found[lowest]) - (true - true[lowest])).mean() * 1000)
