"""One number a molecule: six targets of QM9, and the gap of Molecule3D."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cliffordstf.bench.jobs.data_digests import listing_digest
from cliffordstf.bench.jobs.protocols import protocol_options, recipe_name
from cliffordstf.bench.jobs.sweep import file_name
from cliffordstf.bench.jobs.training_job import TrainingJob, length_name
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
from cliffordstf.data.readers import ase_db, qm9pack
from cliffordstf.errors import ConfigError
from cliffordstf.options.text import did_you_mean
from cliffordstf.train.config import load_config


@dataclass(frozen=True)
class Target:
    """A quantity.

    Attributes:
        unit: That errors are given in.
        pooling: Whether it is a sum over atoms or a mean.
        factor: From eV, or from the file's own numbers where they are no energies, to the unit.
    """

    unit: str
    pooling: Literal["sum", "mean"]
    factor: float = 1.0

    def in_unit(self, milli: float) -> float:
        """An error as metrics have it, a thousandth of eV or of the file's own unit, in the target's unit."""
        return milli / 1000 * self.factor


QM9 = {
    "Cv": Target("cal/mol/K", "sum"),
    "U0": Target("meV", "sum", 1000.0),
    "alpha": Target("bohr³", "sum"),
    "homo": Target("meV", "mean", 1000.0),
    "lumo": Target("meV", "mean", 1000.0),
    "mu": Target("D", "mean"),
}
"""The paper's six targets, in its order."""

MOLECULE3D = {"gap": Target("eV", "mean")}

TARGETS = {"qm9": QM9, "molecule3d": MOLECULE3D}

OFFICIAL_LIST = "uncharacterized.txt"
NOTHING = Path("none")
"""In the place of a list."""

_ONE_NUMBER = ("loss.energy.kind=mse", "loss.energy.weight=1", "loss.energy_per=structure")
"""Squares: without forces they did better on validation molecules than what is measured, absolute errors."""


def scalar_job(
    benchmark: Literal["qm9", "molecule3d"],
    data: str,
    target: str,
    *,
    budget: str = "30min",
    seed: int = 0,
    model: str = "default",
    protocol: str = "sound",
    exclude: Path | None = None,
    overrides: Sequence[str] = (),
    label: str | None = None,
) -> TrainingJob:
    """One run: a model for one target.

    Args:
        benchmark: Which data set.
        data: Its files: `qm9pack:` or a folder of QM9, the folder `data/raw` of Molecule3D.
        target: One of `TARGETS[benchmark]`.
        budget, seed, model, protocol, overrides, label: As for `rmd17_job`.
        exclude: File with the ids of molecules to leave out, the 3054 of QM9; by default the official list if it lies
            in the folder of the data or beside it. `NOTHING` keeps all.
    """
    exclude = _excluded(benchmark, data, exclude)
    known = TARGETS[benchmark]
    if target not in known:
        raise ConfigError(
            f"{benchmark} has no target '{target}'{did_you_mean(target, known)}; choose from {', '.join(known)}."
        )
    options = [
        f"data.train={data}",
        f"data.keys.energy={_key(data, target)}",
        *_splits(benchmark, data, seed),
        *([f"data.exclude={exclude}"] if exclude else []),
        f"seed={seed}",
        f"budget={budget}",
        f"model.preset={model}",
        f"model.pooling={known[target].pooling}",
        *_ONE_NUMBER,
        *protocol_options(protocol, benchmark, model),
        *overrides,
    ]
    recipe = recipe_name(protocol, model, label)
    labels = {
        "benchmark": benchmark,
        "target": target,
        "model": model,
        "protocol": protocol,
        "recipe": recipe,
        "overrides": list(overrides),
        "source": Path(data).name,
        "listing": listing_digest(Path(data)),
        "exclude": exclude.name if exclude else None,
    }
    config = load_config(None, options)
    name = f"{benchmark}-{target}-{file_name(recipe)}-{length_name(config)}-seed{seed}"
    return TrainingJob(name, labels, config)


_SCHNETPACK = {
    "Cv": "heat_capacity",
    "U0": "energy_U0",
    "alpha": "isotropic_polarizability",
    "mu": "dipole_moment",
}
"""What targets are called in the database that SchNetPack makes of QM9, where it has names of its own."""


def _key(data: str, target: str) -> str:
    file = Path(data)
    is_schnetpack = file.suffix == ".db" and file.is_file() and ase_db.read(file, 1).format.startswith("SchNetPack")
    return _SCHNETPACK.get(target, target) if is_schnetpack else target


def _excluded(benchmark: str, data: str, asked: Path | None) -> Path | None:
    """The list of what is left out; where QM9 needs one, it is not forgotten silently."""
    if asked == NOTHING:
        return None
    found = asked or _official_list(benchmark, data)
    if found is None and benchmark == "qm9" and data != qm9pack.ADDRESS:
        raise ConfigError(
            f"no {OFFICIAL_LIST} lies in or beside {data}, so the 3054 molecules that failed QM9's own check would "
            "stay in; give the list with --exclude FILE, or keep them with --exclude none."
        )
    return found


def _official_list(benchmark: str, data: str) -> Path | None:
    """The list of molecules that failed the consistency check of QM9; `qm9pack` comes without these."""
    folder = Path(data)
    places = (folder / OFFICIAL_LIST, folder.parent / OFFICIAL_LIST) if benchmark == "qm9" and folder.exists() else ()
    return next((place for place in places if place.is_file()), None)


def _splits(benchmark: str, data: str, seed: int) -> list[str]:
    """80/10/10 at random for QM9, as in the paper; the official random split of Molecule3D."""
    if benchmark == "qm9":
        return ["data.valid=0.1", "data.test=0.1", f"data.split_seed={seed}"]
    indices = Path(data) / "random_split_inds.json"
    return [f"data.{part}_indices={indices}:{part}" for part in ("train", "valid", "test")]


def scalar_tables(results: Iterable[dict[str, Any]], benchmark: str) -> list[Table]:
    """One for each protocol and way to take references off: these decide what knowing nothing means."""
    groups = by_baseline(results)
    return [_scalar_table(chosen, benchmark, setting) for setting, chosen in groups.items()]


def _scalar_table(chosen: Sequence[dict[str, Any]], benchmark: str, setting: str) -> Table:
    """Test MAE of every model and target, the paper's, published ones, and the baseline."""
    known = TARGETS[benchmark]
    targets = [target for target in known if any(r["target"] == target for r in chosen)]
    heads = ["model", "parameters", "budget", "passes"]
    for target in targets:
        heads += [f"{target}, {known[target].unit}", f"{target}, paper", f"{target}, published"]
    title = "QM9" if benchmark == "qm9" else "Molecule3D"
    tested = split_head("test MAE", [r["metrics"] for r in chosen])
    table = Table(f"{title}{sizes(chosen)}, {setting}: {tested}; {circumstances(chosen)}", heads)
    for recipe, each in sorted({(r["recipe"], length(r)) for r in chosen}):
        mine = [r for r in chosen if (r["recipe"], length(r)) == (recipe, each)]
        cells = [recipe, f"{mine[0]['parameters']:,}", length_text(each), passes(mine)]
        for target in targets:
            errors = [known[target].in_unit(r["metrics"]["energy_mae_mev"]) for r in mine if r["target"] == target]
            cells += [spread(errors, 3) if errors else "", *_known_elsewhere(mine[0]["model"], benchmark, target)]
        table.add(*cells)
    baseline = ["baseline", "", "", ""]
    for target in targets:
        metrics = next(r["metrics"] for r in chosen if r["target"] == target)
        baseline += [f"{known[target].in_unit(metrics['baseline_energy_mae_mev']):.3f}", "", ""]
    table.add(*baseline)
    return table


def _known_elsewhere(model: str, benchmark: str, target: str) -> tuple[str, str]:
    """What the paper prints, and what is published at the settings that a model's authors recommend."""
    column = target if benchmark == "qm9" else "molecule3d gap"
    factor = TARGETS[benchmark][target].factor  # both are in eV
    printed, published = paper_value("qm9", model, column), published_value("qm9", model, column)
    return (
        "" if printed is None else f"{printed.value * factor:g}",
        "" if published is None else f"{published * factor:g}",
    )
