"""`cliffordstf bench …`: what is measured of models beside their errors: dynamics, sizes, physics."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cliffordstf.bench.jobs.sweep import Job
from cliffordstf.bench.studies.nve import NveJob
from cliffordstf.bench.studies.physics import PhysicsJob
from cliffordstf.bench.studies.physics import models_here as physics_models
from cliffordstf.bench.studies.scaling import FAMILIES, models_here, scaling_job
from cliffordstf.bench.studies.scaling_timing import scaling_timing
from cliffordstf.cli.benchmarks.sweeps import study
from cliffordstf.cli.options import Overrides, Recipe, Seeds, need_a_name, numbers
from cliffordstf.options.text import names_in

_ASPIRIN = "data/rmd17/rmd17_aspirin_train_01.npz"


@study()
def nve(
    model: Annotated[str, typer.Argument(help="Model file or name of a shipped model.")],
    data: Annotated[Path, typer.Argument(help="Frames of the molecule, to start from and to compare bonds with.")],
    temperature: Annotated[float, typer.Option(help="Of the first velocities, K.")] = 500.0,
    picoseconds: Annotated[float, typer.Option(help="Length of each run.")] = 100.0,
    timestep: Annotated[float, typer.Option(help="fs.")] = 0.5,
    seeds: Seeds = "0,1,2",
) -> Sequence[Job]:
    """Run long dynamics without a thermostat from several frames: energy drift, temperature, bond lengths."""
    return [
        NveJob(model, data, seed, temperature=temperature, timestep=timestep, picoseconds=picoseconds)
        for seed in numbers(seeds)
    ]


@study()
def scaling(
    overrides: Overrides = None,
    data: Annotated[str, typer.Option(help="Labelled structures: any file that train reads.")] = _ASPIRIN,
    models: Annotated[str, typer.Option(help="Presets or peers, or 'all' of the check that are installed.")] = "all",
    steps: Annotated[int, typer.Option(help="Updates of each run.")] = 300,
    budget: Annotated[
        str | None, typer.Option(help="Time of each run at most; the table compares at the steps that all reached.")
    ] = None,
    seeds: Seeds = "0",
    recipe: Recipe = None,
) -> Sequence[Job]:
    """Train models of 10^6 and 10^7 parameters for equally many steps: step time, memory, loss."""
    need_a_name(overrides, recipe)
    names: Sequence[str] = names_in(models)
    if models == "all":
        names, missing = models_here()
        _say_missing(missing)
    timings = [
        scaling_timing(data, family, overrides=overrides or (), label=recipe)
        for family, pair in FAMILIES.items()
        if set(pair) <= set(names)
    ]
    runs = [
        scaling_job(data, steps=steps, budget=budget, seed=seed, model=model, overrides=overrides or (), label=recipe)
        for seed in numbers(seeds)
        for model in names
    ]
    return [*timings, *runs]


@study()
def physics(
    models: Annotated[str, typer.Option(help="Presets or peers, or 'all' that are installed.")] = "all",
) -> Sequence[Job]:
    """Measure what untrained models obey: gradients, symmetries, cells, separation, smoothness at the cutoff."""
    names: Sequence[str] = names_in(models)
    if models == "all":
        names, missing = physics_models()
        _say_missing(missing)
    return [PhysicsJob(name) for name in names]


def _say_missing(missing: dict[str, str]) -> None:
    for reason in missing.values():
        Console().print(f"left out: {reason}", soft_wrap=True, highlight=False)
