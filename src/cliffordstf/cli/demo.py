"""`cliffordstf demo`: the main job from end to end on a data set that comes with the package."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer
from ase import Atoms
from ase.io import read, write
from rich.console import Console
from rich.table import Table

from cliffordstf import datasets
from cliffordstf.cli.screen import Screen
from cliffordstf.cli.train import report_inputs
from cliffordstf.integrations.ase import Calculator
from cliffordstf.report import write_report, write_summary_png
from cliffordstf.simulate.md import run_md
from cliffordstf.simulate.settings import MDResult, MDSettings
from cliffordstf.train.config import TrainConfig, load_config
from cliffordstf.train.run import RunResult, train
from cliffordstf.train.run_folder import free_directory

TRAIN_FRAMES, TEST_FRAMES = 420, 150
MODELS: dict[str, dict[str, Any]] = {
    "Clifford (lmax 1)": {"preset": "default/small", "lmax": 1, "channels": 32},
    "Clifford + STF (lmax 2)": {"preset": "default/small", "lmax": 2, "channels": 32},
}


def demo(
    out: Annotated[Path, typer.Option(help="Folder; never overwritten.")] = Path("runs/demo"),
    budget: Annotated[str, typer.Option(help="Training time of each model.")] = "45s",
    md_steps: Annotated[int, typer.Option(min=1, help="Steps of molecular dynamics.")] = 600,
) -> None:
    """Train two models on ethanol (GFN2-xTB), compare them, run NVE dynamics, write a report."""
    console = Console()
    directory = free_directory(out)
    train_file, test_file = _split(directory)
    console.print(
        f"ethanol, GFN2-xTB at 500 K: {TRAIN_FRAMES} frames to learn from, {TEST_FRAMES} later ones of the same "
        "trajectory for the test",
        soft_wrap=True,
    )
    results: dict[str, RunResult] = {}
    for number, (name, model) in enumerate(MODELS.items(), start=1):
        console.rule(f"{number} of {len(MODELS)}: {name}")
        screen = Screen(console, lines=5)
        result = train(_config(train_file, test_file, model, budget), directory / f"model-{number}", screen)
        screen.finish()
        if result is None:
            console.print("stopped before the end; nothing else is done.")
            raise typer.Exit(143)
        results[name] = result
    best = list(results.values())[-1]
    console.rule("molecular dynamics")
    line = _dynamics(best, test_file, directory, md_steps)
    console.print(line, soft_wrap=True)
    rows = _rows(results)
    console.print(_table(rows))
    inputs = report_inputs(best, title="cliffordstf demo: ethanol, GFN2-xTB", comparison=rows, notes=[line])
    picture = write_summary_png(inputs, directory / "summary.png")
    page = write_report(inputs, directory / "report")
    console.print(f"model    {best.directory / 'model.safetensors'}")
    console.print(f"figure   {picture}")
    console.print(f"report   {page}")


def _split(directory: Path) -> tuple[Path, Path]:
    """Training and test files; neighbouring frames are correlated, so the test is the end of the trajectory."""
    frames = read(datasets.path("ethanol_gfn2"), ":")
    directory.mkdir(parents=True)
    parts = {"train": frames[:TRAIN_FRAMES], "test": frames[-TEST_FRAMES:]}
    for name, images in parts.items():
        write(directory / f"{name}.extxyz", images)
    return directory / "train.extxyz", directory / "test.extxyz"


def _config(train_file: Path, test_file: Path, model: dict[str, Any], budget: str) -> TrainConfig:
    base = {
        "data": {"train": str(train_file), "valid": 30, "test": str(test_file)},
        "model": model,
        "batch_size": 5,
        "validate_every": 1,
    }
    return load_config(None, [f"budget={budget}"], base)


def _dynamics(result: RunResult, test_file: Path, directory: Path, steps: int) -> str:
    atoms = cast("Atoms", read(test_file, 0))
    settings = MDSettings(
        ensemble="nve", temperature=300.0, timestep=0.5, steps=steps, trajectory=directory / "md.traj",
        log=directory / "md.csv",
    )  # fmt: skip
    found: MDResult = run_md(atoms, Calculator(result.potential, dtype="float32"), settings)
    share = 100 * (found.neighbour_share or 0.0)
    return (
        f"NVE from 300 K, {steps} steps of 0.5 fs: drift {found.drift:+.3f} meV/atom/ps, mean temperature "
        f"{found.mean_temperature:.0f} K, {1000 * found.seconds / steps:.1f} ms a step, neighbour list {share:.1f} %"
    )


def _rows(results: dict[str, RunResult]) -> list[dict[str, Any]]:
    first = next(iter(results.values())).metrics["test"]
    zero = {
        "name": "baseline",
        "energy_mae_mev": first["baseline_energy_mae_mev"],
        "force_mae_mev_per_a": first["baseline_force_mae_mev_per_a"],
        "force_cosine": 0.0,
        "parameters": 0,
    }
    rows = [zero]
    for name, result in results.items():
        metrics = result.metrics["test"]
        rows.append(
            {
                "name": name,
                "energy_mae_mev": metrics["energy_mae_mev"],
                "force_mae_mev_per_a": metrics["force_mae_mev_per_a"],
                "force_cosine": metrics["force_cosine"],
                "parameters": result.provenance["parameters"],
            }
        )
    return rows


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        title=f"Test set: the last {TEST_FRAMES} frames",
        caption="baseline: constant energy, zero forces. Both models have the same recipe and training time.",
    )
    table.add_column("model", no_wrap=True)
    for column in ("energy MAE meV", "force MAE meV/Å", "force cosine", "parameters"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row["name"],
            f"{row['energy_mae_mev']:.1f}",
            f"{row['force_mae_mev_per_a']:.1f}",
            f"{row['force_cosine']:.4f}",
            f"{row['parameters']:,}" if row["parameters"] else "",
        )
    return table
