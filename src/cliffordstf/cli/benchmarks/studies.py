"""`cliffordstf bench …`: the studies that train models and measure their errors, as sweeps of resumable jobs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from cliffordstf.bench.jobs.sweep import Job
from cliffordstf.bench.literature.published_values import RMD17_MOLECULES
from cliffordstf.bench.studies.acac import acac_job
from cliffordstf.bench.studies.catalysis import Energy, catalysis_job
from cliffordstf.bench.studies.ensemble import ensemble_job
from cliffordstf.bench.studies.learning_rates import rates_job, scalar_rates_job
from cliffordstf.bench.studies.own_data import own_data_job
from cliffordstf.bench.studies.rmd17 import rmd17_job
from cliffordstf.bench.studies.scalar_targets import QM9, scalar_job
from cliffordstf.bench.tables.ablation import ABLATION
from cliffordstf.cli.benchmarks.sweeps import study
from cliffordstf.cli.options import (
    Budget,
    DataFolder,
    Exclude,
    Models,
    Overrides,
    Protocol,
    Recipe,
    Seeds,
    need_a_name,
    numbers,
)
from cliffordstf.data.readers import qm9pack
from cliffordstf.errors import ConfigError
from cliffordstf.options.text import names_in


@study()
def rmd17(
    overrides: Overrides = None,
    data: DataFolder = Path("data/rmd17"),
    molecules: Annotated[str, typer.Option(help="Names separated by commas, or 'all'.")] = "all",
    train: Annotated[
        int | None, typer.Option(help="Training frames: 950 (by default), 900 (with --protocol paper) or 50.")
    ] = None,
    split: Annotated[int, typer.Option(help="Official split, 1 to 5.")] = 1,
    models: Models = "default",
    protocol: Protocol = "sound",
    budget: Budget = "20min",
    seeds: Seeds = "0",
    recipe: Recipe = None,
    members: Annotated[int, typer.Option(min=1, help="Runs side by side whose mean is judged; each on its cores.")] = 1,
) -> Sequence[Job]:
    """Train on the official splits of rMD17 and print the table; what is done is skipped, what was stopped goes on."""
    need_a_name(overrides, recipe)
    names = RMD17_MOLECULES if molecules == "all" else names_in(molecules)
    jobs = [
        rmd17_job(
            data,
            molecule,
            train=train if train is not None else 900 if protocol == "paper" else 950,
            split=split,
            budget=budget,
            seed=seed,
            model=model,
            protocol=protocol,
            overrides=overrides or (),
            label=recipe,
        )
        for seed in numbers(seeds)
        for model in names_in(models)
        for molecule in names
    ]
    return jobs if members == 1 else [ensemble_job(job, members) for job in jobs]


@study()
def ablation(
    overrides: Overrides = None,
    data: DataFolder = Path("data/rmd17"),
    molecules: Annotated[str, typer.Option(help="Names separated by commas.")] = "ethanol",
    models: Annotated[str, typer.Option(help="Variants separated by commas, or 'all'.")] = "all",
    budget: Budget = "10min",
    steps: Annotated[int | None, typer.Option(min=1, help="Updates of each run, in place of a budget.")] = None,
    seeds: Seeds = "0,1",
) -> Sequence[Job]:
    """Repeat the paper's ablation on rMD17: twelve variants, direct forces, equal time or steps, our protocol."""
    return [
        rmd17_job(
            data,
            molecule,
            train=900,
            budget=budget,
            steps=steps,
            seed=seed,
            model=model,
            overrides=("model.forces=direct", *(overrides or ())),
            label=model,
            benchmark="ablation",
        )
        for seed in numbers(seeds)
        for molecule in names_in(molecules)
        for model in (ABLATION if models == "all" else names_in(models))
    ]


@study()
def rates(
    overrides: Overrides = None,
    data: Annotated[str | None, typer.Option(help="Folder of rMD17; with --targets as for bench qm9.")] = None,
    molecules: Annotated[str | None, typer.Option(help="Of rMD17, separated by commas; by default ethanol.")] = None,
    targets: Annotated[
        str | None, typer.Option(help="Targets of QM9 in place of molecules, separated by commas, or 'all'.")
    ] = None,
    exclude: Exclude = None,
    models: Models = "default",
    rates: Annotated[str, typer.Option(help="Learning rates separated by commas.")] = "0.00125,0.005,0.02",
    budget: Budget = "3min",
    seeds: Seeds = "0",
) -> Sequence[Job]:
    """Try learning rates in short runs on rMD17 or QM9; validation data judge, test sets are not looked at."""
    runs = [(seed, model, rate) for seed in numbers(seeds) for model in names_in(models) for rate in _rates(rates)]
    if targets is None and exclude is not None:
        raise ConfigError("--exclude is for QM9: name its --targets.")
    if targets is not None:
        if molecules is not None:
            raise ConfigError("--molecules are of rMD17 and --targets of QM9; give one of them.")
        return [
            scalar_rates_job(
                data or qm9pack.ADDRESS,
                target,
                model,
                rate,
                budget=budget,
                seed=seed,
                exclude=exclude,
                overrides=overrides or (),
            )
            for target in (QM9 if targets == "all" else names_in(targets))
            for seed, model, rate in runs
        ]
    folder = Path(data or "data/rmd17")
    return [
        rates_job(folder, molecule, model, rate, budget=budget, seed=seed, overrides=overrides or ())
        for molecule in names_in(molecules or "ethanol")
        for seed, model, rate in runs
    ]


@study()
def qm9(
    overrides: Overrides = None,
    data: Annotated[str, typer.Option(help="qm9pack: (pip install qm9pack), or a folder or file of QM9.")] = "qm9pack:",
    exclude: Exclude = None,
    targets: Annotated[str, typer.Option(help="Names separated by commas, or 'all'.")] = "U0",
    models: Models = "default",
    protocol: Protocol = "sound",
    budget: Budget = "30min",
    seeds: Seeds = "0",
    recipe: Recipe = None,
) -> Sequence[Job]:
    """Train on QM9, 80/10/10: a model for each target."""
    need_a_name(overrides, recipe)
    return [
        scalar_job(
            "qm9",
            data,
            target,
            budget=budget,
            seed=seed,
            model=model,
            protocol=protocol,
            exclude=exclude,
            overrides=overrides or (),
            label=recipe,
        )
        for seed in numbers(seeds)
        for model in names_in(models)
        for target in (QM9 if targets == "all" else names_in(targets))
    ]


@study()
def molecule3d(
    overrides: Overrides = None,
    data: DataFolder = Path("data/molecule3d/data/raw"),
    models: Models = "default",
    protocol: Protocol = "sound",
    budget: Budget = "30min",
    seeds: Seeds = "0",
    recipe: Recipe = None,
) -> Sequence[Job]:
    """Train on the gaps of Molecule3D, official random split."""
    need_a_name(overrides, recipe)
    return [
        scalar_job(
            "molecule3d",
            str(data),
            "gap",
            budget=budget,
            seed=seed,
            model=model,
            protocol=protocol,
            overrides=overrides or (),
            label=recipe,
        )
        for seed in numbers(seeds)
        for model in names_in(models)
    ]


def _catalysis(benchmark: Literal["oc20", "oc22"]) -> None:
    """Register the command of one of the two data sets."""

    @study(benchmark, help=f"Train on {benchmark.upper()}: relaxed energies, or energies and forces.")
    def command(
        overrides: Overrides = None,
        train: Annotated[Path, typer.Option(help="Training split: LMDB, raw shards or .traj.")] = Path("train"),
        test: Annotated[
            list[str] | None,
            typer.Option(help="NAME=PATH of a test split; repeat it. NAME=0.2 holds a fifth of the training out."),
        ] = None,
        valid: Annotated[Path | None, typer.Option(help="Validation split; else a twentieth of the training.")] = None,
        task: Annotated[str, typer.Option(help="is2re or s2ef.")] = "s2ef",
        reference: Annotated[Path | None, typer.Option(help="Linear reference energies, .npz.")] = None,
        energy: Annotated[
            str | None, typer.Option(help="adsorption (as OC20 is evaluated) or total (as OC22 is).")
        ] = None,
        system_reference: Annotated[
            Path | None, typer.Option(help="Energies by system, oc20_ref.pkl: adsorption energies of relaxations.")
        ] = None,
        models: Models = "default",
        protocol: Protocol = "sound",
        budget: Budget = "30min",
        seeds: Seeds = "0",
        recipe: Recipe = None,
    ) -> Sequence[Job]:
        need_a_name(overrides, recipe)
        if energy not in (None, "adsorption", "total"):
            raise ConfigError(f"--energy {energy} is neither adsorption nor total.")
        return [
            catalysis_job(
                benchmark,
                task,
                train,
                _splits(test or []),
                valid=valid,
                reference=reference,
                energy=cast("Energy | None", energy),
                system_reference=system_reference,
                budget=budget,
                seed=seed,
                model=model,
                protocol=protocol,
                overrides=overrides or (),
                label=recipe,
            )
            for seed in numbers(seeds)
            for model in names_in(models)
        ]


def _splits(texts: list[str]) -> dict[str, Path | float]:
    parts = [text.partition("=") for text in texts]
    if not parts or not all(name and path for name, _, path in parts):
        raise ConfigError("give the test splits as --test NAME=PATH, for example --test val_id=data/val_id.")
    return {name: _share(text) or Path(text) for name, _, text in parts}


def _share(text: str) -> float | None:
    """A number between 0 and 1, if it is one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < 1 else None


_catalysis("oc20")
_catalysis("oc22")


@study()
def own(
    overrides: Overrides = None,
    train: Annotated[Path, typer.Option(help="Training structures: whatever train reads.")] = Path("train.extxyz"),
    test: Annotated[
        list[str] | None, typer.Option(help="NAME=PATH of a test set; repeat it. NAME=0.2 holds a fifth out.")
    ] = None,
    valid: Annotated[Path | None, typer.Option(help="Validation set; else a twentieth of the training.")] = None,
    models: Models = "default",
    budget: Budget = "10min",
    seeds: Seeds = "0",
    recipe: Recipe = None,
) -> Sequence[Job]:
    """Compare models on structures of your own: the same data, time and seeds for all."""
    need_a_name(overrides, recipe)
    return [
        own_data_job(
            train,
            _splits(test or ["test=0.1"]),
            valid=valid,
            budget=budget,
            seed=seed,
            model=model,
            overrides=overrides or (),
            label=recipe,
        )
        for seed in numbers(seeds)
        for model in names_in(models)
    ]


@study()
def acac(
    overrides: Overrides = None,
    data: DataFolder = Path("data/acac"),
    models: Models = "default",
    budget: Budget = "20min",
    seeds: Seeds = "0",
    recipe: Recipe = None,
) -> Sequence[Job]:
    """Train on acetylacetone at 300 K; test at 300 K and 600 K, on a rotation and on a proton transfer."""
    need_a_name(overrides, recipe)
    return [
        acac_job(data, budget=budget, seed=seed, model=model, overrides=overrides or (), label=recipe)
        for seed in numbers(seeds)
        for model in names_in(models)
    ]


def _rates(text: str) -> list[float]:
    try:
        values = [float(part) for part in names_in(text)]
    except ValueError:
        values = []
    if not values or not all(0 < value < float("inf") for value in values):
        raise ConfigError(f"--rates {text} must be positive numbers separated by commas, for example 0.005,0.02.")
    return values
