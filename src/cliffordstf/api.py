"""Training and evaluation from Python: what the commands do, with paths, lists of ASE Atoms and arrays."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cliffordstf.data.baseline import Baseline
from cliffordstf.data.dataset import BatchPlan, Dataset
from cliffordstf.data.frame import Frame
from cliffordstf.data.load import Structures, is_in_memory, load_frames
from cliffordstf.data.options import ReadOptions
from cliffordstf.data.references import split_isolated
from cliffordstf.data.structure import FloatArray
from cliffordstf.errors import CliffordSTFError, ConfigError, DataError
from cliffordstf.model.ensemble import Ensemble
from cliffordstf.model.potential import Potential
from cliffordstf.model.shipped import open_ensemble
from cliffordstf.options import parse_options
from cliffordstf.train.config import TrainConfig, load_config, merged, nested, option_hint
from cliffordstf.train.evaluate import evaluate as run_evaluation
from cliffordstf.train.metrics import compute_metrics
from cliffordstf.train.run import RunResult
from cliffordstf.train.run import train as run_training
from cliffordstf.train.run_folder import free_directory, replace_run, run_name

if TYPE_CHECKING:
    from ase import Atoms

Model = str | Path | Potential | Ensemble
IN_MEMORY = "structures in memory"


def train(
    data: Structures,
    *,
    valid: Structures | float | None = None,
    test: Structures | float | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    report: bool = False,
    progress: Callable[[float, dict[str, float | None]], None] | None = None,
    **options: Any,
) -> RunResult:
    """Train a potential.

    Args:
        data: Files, folders and patterns, or a list of ASE Atoms whose calculators hold energy, forces and stress.
        valid: Validation set: a fraction (below 1), a count, files, or a list of Atoms; by default a twentieth.
        test: Test set, the same way; by default none.
        out: Folder of the run; by default a new one, `runs/NAME`.
        overwrite: Replace the run in `out`.
        report: Write the HTML report and the summary figure as the command does.
        progress: Called after every validation with the share of the run that is done and the errors.
        options: Of the config; dots become double underscores: `model__lmax=3`, `data__reference="iso.xyz"`,
            `budget="20min"`, `epochs=100`. Mappings work too: `model={"preset": "default", "lmax": 3}`.

    Returns:
        The trained potential with its errors and where its files are.

    Raises:
        ConfigError: An option does not exist or is not valid.
        DataError: The structures cannot be used.

    Example:
        >>> import cliffordstf, tempfile
        >>> from cliffordstf import datasets
        >>> folder = tempfile.mkdtemp()
        >>> run = cliffordstf.train(
        ...     datasets.path("ethanol_gfn2"), out=f"{folder}/run", epochs=1,
        ...     model={"preset": "default/small", "channels": 8}, data__train_size=20, data__valid=5)
        >>> run.metrics["validation"]["n_structures"]
        5
    """
    config, memory = _train_config(data, valid, test, options)
    directory = Path(out) if out is not None else free_directory(Path("runs") / run_name(config.data.train))
    if out is not None and not overwrite and directory.exists() and any(directory.iterdir()):
        raise ConfigError(f"{out} exists; give another folder or overwrite=True.")
    if overwrite:
        replace_run(directory, check_only=True)
    result = run_training(config, directory, _Listener(progress), memory, overwrite)
    if result is None:
        raise CliffordSTFError(f"the run was stopped by a signal; cliffordstf train --resume {directory} goes on.")
    if report:
        _write_report(result)
    return result


class _Listener:
    """Passes validations on."""

    def __init__(self, progress: Callable[[float, dict[str, float | None]], None] | None) -> None:
        self._progress = progress
        self._share = 0.0

    def prepared(self, setup: Any, directory: Path) -> None:
        """Do nothing."""

    def step(self, _progress: Any, share: float, _loss: float) -> None:
        """Remember how far the run is."""
        self._share = share

    def validated(self, row: dict[str, float | None]) -> None:
        """Pass the errors on."""
        if self._progress is not None:
            self._progress(self._share, row)


def _train_config(
    data: Structures, valid: Structures | float | None, test: Structures | float | None, options: Mapping[str, Any]
) -> tuple[TrainConfig, dict[str, Sequence[Frame]]]:
    values = _nested(options)
    memory: dict[str, Any] = {}
    of_data = dict(values.get("data", {}))
    for name, given in (("train", data), ("valid", valid), ("test", test)):
        if given is None:
            continue
        if isinstance(given, int | float):
            of_data[name] = float(given)
        elif is_in_memory(given):
            memory[name], of_data[name] = list(given), IN_MEMORY  # type: ignore[arg-type]
        else:
            of_data[name] = [str(path) for path in given] if isinstance(given, list | tuple) else str(given)
    return load_config(None, [], {**values, "data": of_data}), memory


def _nested(options: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in options.items():
        found = merged(found, nested(name.replace("__", "."), str(value) if isinstance(value, Path) else value))
    return found


def _write_report(result: RunResult) -> None:
    from cliffordstf.cli.train import report_inputs  # noqa: PLC0415 - the command line is not needed otherwise
    from cliffordstf.report import write_report, write_summary_png  # noqa: PLC0415 - nor is matplotlib

    inputs = report_inputs(result)
    write_report(inputs, result.directory / "report")
    write_summary_png(inputs, result.directory / "summary.png")


def evaluate(
    model: Model | Sequence[Model], data: Structures, *, batch_size: int = 32, **options: Any
) -> dict[str, Any]:
    """Errors of a model on labelled structures.

    Args:
        model: A model file, a run folder, the name of a shipped model or a potential; several make an ensemble.
        data: Files, folders and patterns, or a list of ASE Atoms whose calculators hold the labels.
        batch_size: Structures evaluated together.
        options: Of reading: `units__energy="Hartree"`, `keys__forces="dft_forces"`, `stress_order="xy yz zx"`, ….

    Returns:
        Errors by name: `energy_mae_mev`, `force_mae_mev_per_a`, `force_rmse_mev_per_a`, `stress_mae_gpa`, …, each
        beside that of the baseline, `baseline_…`; and by label in `per_config_type`.

    Example:
        >>> import cliffordstf
        >>> from cliffordstf import datasets
        >>> errors = cliffordstf.evaluate("ethanol-gfn2", datasets.path("ethanol_gfn2"), limit=20)
        >>> errors["force_mae_mev_per_a"] < 0.1 * errors["baseline_force_mae_mev_per_a"]
        True
    """
    potential, baseline = _opened(model)
    frames = load_frames(data, parse_options(ReadOptions, _nested(options), "data", option_hint)).frames
    frames = split_isolated(frames)[1] or frames
    if not any(frame.has_energy or frame.has_forces or frame.has_stress for frame in frames):
        raise DataError("no structure carries a label; name the labels with keys__energy=… and keys__forces=….")
    dataset = Dataset(frames, potential.cutoff)
    return compute_metrics(run_evaluation(potential, dataset, BatchPlan(batch_size, 2000), baseline))


def predict(
    model: Model | Sequence[Model], structures: "Structures | Atoms", *, batch_size: int = 32, **options: Any
) -> dict[str, Any]:
    """Energies, forces and stresses of structures.

    Args:
        model: A model file, a run folder, the name of a shipped model or a potential; several make an ensemble.
        structures: Files, folders and patterns, one ASE Atoms object or a list of them.
        batch_size: Structures evaluated together.
        options: Of reading.

    Returns:
        `energy`: eV, (structures,); `forces`: a list with eV/Å, (atoms, 3), for each structure; `stress`: eV/Å³,
        (structures, 3, 3), positive under tension, NaN without a cell; for an ensemble also `energy_std` and
        `forces_std`.

    Example:
        >>> import cliffordstf
        >>> from ase.build import molecule
        >>> found = cliffordstf.predict("ethanol-gfn2", molecule("CH3CH2OH"))
        >>> found["energy"].shape, found["forces"][0].shape
        ((1,), (9, 3))
    """
    potential, _ = _opened(model)
    given: Any = [structures] if hasattr(structures, "get_positions") else structures
    frames = load_frames(given, parse_options(ReadOptions, _nested(options), "data", option_hint)).frames
    dataset = Dataset(frames, potential.cutoff)
    device = potential.species_of_number.device
    parts = [
        potential(labels.batch.to(device), stress=bool((labels.batch.volumes() > 0).any()))
        for labels in dataset.batches(BatchPlan(batch_size, 2000))
    ]
    ends = np.cumsum(dataset.atoms)[:-1]
    found: dict[str, Any] = {
        "energy": _array([part.energy for part in parts]),
        "forces": np.split(_array([part.forces for part in parts]), ends),
    }
    stress = [
        np.full((len(part.energy), 3, 3), np.nan) if part.stress is None else part.stress.cpu().numpy()
        for part in parts
    ]
    found["stress"] = np.concatenate(stress)
    if parts[0].energy_std is not None:
        found["energy_std"] = _array([part.energy_std for part in parts])
        found["forces_std"] = np.split(_array([part.forces_std for part in parts]), ends)
    return found


def _array(parts: Sequence[Any]) -> FloatArray:
    return np.concatenate([part.detach().cpu().numpy() for part in parts])


def _opened(model: Model | Sequence[Model]) -> tuple[Potential | Ensemble, Baseline | None]:
    models = list(model) if isinstance(model, list | tuple) else [model]
    if all(isinstance(item, str | Path) for item in models):
        potential, info = open_ensemble(models)  # type: ignore[arg-type]
        return potential.eval(), Baseline.stored(info.provenance)
    if any(isinstance(item, Ensemble) for item in models):
        if len(models) > 1:
            raise ConfigError("an ensemble stands alone; give its potentials one by one to enlarge it.")
        return models[0].eval(), None  # type: ignore[union-attr]
    opened = [item if isinstance(item, Potential) else open_ensemble([item])[0] for item in models]  # type: ignore[list-item]
    potentials = [item for item in opened if isinstance(item, Potential)]
    return (potentials[0] if len(potentials) == 1 else Ensemble(potentials)).eval(), None
