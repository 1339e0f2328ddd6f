"""Draw docs/overview.png, the figure of the README, from the result files: `python docs/figures.py`."""

import json
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cliffordstf.bench.literature.published_values import RMD17_MOLECULES, rmd17
from cliffordstf.report.style import ACCENT, MUTED, SECOND, THIRD, house_style, log_axis

ROOT = Path(__file__).parents[1]
OURS = "cliffordstf"
MODELS = {
    "default lmax 3": "cliffordstf default, degree 3",
    "paper/full": "cliffordstf paper/full",
    "ictp-l2": "ICTP L=2 (on our kernels)",
    "faenet": "FAENet",
    "schnet": "SchNet",
    "mace-l1": "MACE L=1",
    "painn": "PaiNN",
    "nequip-l1": "NequIP L=1",
    "torchmd-et": "TorchMD-NET ET",
    "equiformer-l4": "EquiformerV2 L=4",
    "tensornet": "TensorNet",
    "visnet": "ViSNet",
    "dimenet++": "DimeNet++",
    "mace-l2": "MACE L=2",
    "gotennet": "GotenNet",
    "mace-l3": "MACE L=3",
}
"""Row of results/speed/speed.json -> label; one row for each family, MACE with all degrees of the speed table."""


def force_errors(train: int = 50) -> dict[str, dict[str, float]]:
    """Force MAE in meV/Å by model and molecule of revised MD17.

    Args:
        train: Number of training frames.
    """
    errors: dict[str, dict[str, float]] = {OURS: {}, "MACE": {}, "NequIP": {}}
    for molecule in RMD17_MOLECULES:
        for model in ("MACE", "NequIP"):
            published = rmd17(train, model, molecule)
            assert published is not None
            errors[model][molecule] = published[1]
    for path in sorted((ROOT / "results" / "rmd17").glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        single = result["recipe"] == "default" and result.get("members", 1) == 1
        if single and result["train"] == train:
            errors[OURS][result["molecule"]] = result["metrics"]["force_mae_mev_per_a"]
    return errors


def inference_times() -> dict[str, float]:
    """Milliseconds for energies and forces of 32 aspirin molecules by label, fastest first."""
    report = json.loads((ROOT / "results" / "speed" / "speed.json").read_text(encoding="utf-8"))
    times = {row["name"]: row["inference_ms"] for row in report["rows"]}
    return dict(sorted(((label, times[name]) for name, label in MODELS.items()), key=lambda item: item[1]))


def draw(path: Path) -> None:
    """Write the figure: force errors with 50 training frames beside inference times."""
    with house_style():
        figure = Figure(figsize=(9.6, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_errors(left, force_errors())
        _draw_times(right, inference_times())
        figure.savefig(path, dpi=150, metadata={"Software": None})


def _draw_errors(axes: Axes, errors: dict[str, dict[str, float]]) -> None:
    styles = {"NequIP": ("^", THIRD, 24), "MACE": ("s", SECOND, 22), OURS: ("o", ACCENT, 38)}
    for model, (marker, colour, size) in styles.items():
        values = [errors[model][molecule] for molecule in RMD17_MOLECULES]
        label = f"{model}, 10 min on one core" if model == OURS else f"{model}, published"
        axes.scatter(values, range(len(values)), s=size, marker=marker, color=colour, label=label, zorder=3)
    log_axis(axes, "x", [value for model in errors.values() for value in model.values()])
    axes.set_yticks(range(len(RMD17_MOLECULES)), RMD17_MOLECULES)
    axes.invert_yaxis()
    axes.set_title("Revised MD17, 50 training structures", fontsize=9.5)
    axes.set_xlabel("test force MAE (meV/Å)")
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(0.0, 0.56), fontsize=8)


def _draw_times(axes: Axes, times: dict[str, float]) -> None:
    rows = range(len(times))
    colours = [ACCENT if label.startswith(OURS) else MUTED for label in times]
    axes.scatter(list(times.values()), rows, s=34, color=colours, zorder=3)
    log_axis(axes, "x", list(times.values()))
    axes.set_yticks(rows, list(times))
    axes.invert_yaxis()
    axes.set_title("Inference, 10⁶ parameters, two CPU threads", fontsize=9.5)
    axes.set_xlabel("energies and forces of 32 aspirin molecules (ms)")


if __name__ == "__main__":
    draw(ROOT / "docs" / "overview.png")
