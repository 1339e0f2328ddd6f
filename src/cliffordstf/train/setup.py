"""From a config to everything a run needs: data, references, scale, a potential."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cliffordstf.data.baseline import Baseline, fit_baseline
from cliffordstf.data.dataset import BatchPlan, Dataset
from cliffordstf.data.frame import Frame
from cliffordstf.data.outliers import near_contacts
from cliffordstf.data.reference_files import wanted_references
from cliffordstf.data.references import References, find_references
from cliffordstf.data.shards.stored import elements_of, representative
from cliffordstf.data.structure import FloatArray, element_numbers, symbol
from cliffordstf.errors import ConfigError
from cliffordstf.model.build import build_from_config
from cliffordstf.model.config import AnyConfig
from cliffordstf.model.file import ModelInfo
from cliffordstf.model.potential import Potential
from cliffordstf.model.presets import preset
from cliffordstf.model.reference import AtomicReference
from cliffordstf.model.shipped import open_model
from cliffordstf.train import parallel
from cliffordstf.train.choices import Choice, batch_plan, model_choices, run_choices, sample
from cliffordstf.train.config import TrainConfig
from cliffordstf.train.divide import InMemory, Splits, load_splits
from cliffordstf.train.finetune import repulsion_distances, start_from


def energy_scale(asked: float | str, frames: Sequence[Frame], references: References) -> float:
    """Energy that the model's numbers are in, eV, see `data.scale`."""
    if isinstance(asked, float):
        return asked
    return energy_spread(frames, references) if asked == "energy" else force_scale(frames, references)


SMALLEST_SCALE = 1e-3
"""eV; labels that do not differ give none."""


def energy_spread(frames: Sequence[Frame], references: References) -> float:
    """Standard deviation of the energies beyond the isolated atoms, eV."""
    return _spread([float(f.energy) - references.of(f) for f in frames if f.energy is not None and f.has_energy])


def force_scale(frames: Sequence[Frame], references: References) -> float:
    """The energy scale: root mean square force component of the training set, eV/Å, a few huge forces left out.

    Without forces, the standard deviation of the energy per atom beyond the isolated atoms, eV.
    """
    parts = [frame.forces[np.isfinite(frame.forces).all(axis=1)] for frame in frames if frame.forces is not None]
    forces = _usual(np.concatenate(parts)) if parts else np.zeros((0, 3))
    if len(forces) and (rms := float(np.sqrt((forces**2).mean()))) > 1e-6:
        return rms
    labelled = [frame for frame in frames if frame.has_energy]
    return _spread([(float(f.energy or 0.0) - references.of(f)) / references.shares(f) for f in labelled])


FAR, MOST_FAR = 20.0, 0.05
"""Median deviations beyond which an energy is a wrong label, and the largest share of such."""


def _spread(residuals: Sequence[float]) -> float:
    """Standard deviation, a few wild values left out."""
    values = np.asarray(residuals, dtype=np.float64)
    if not len(values):
        return SMALLEST_SCALE
    distance = np.abs(values - np.median(values))
    far = distance > FAR * np.median(distance)
    if np.median(distance) > 0 and far.sum() <= max(1, MOST_FAR * len(values)):
        values = values[~far]
    return max(float(np.std(values)), SMALLEST_SCALE)


HUGE = 10.0
"""Times the 99th percentile of the forces' norms. Relaxations may start with atoms on top of each other; one such
structure would set the scale of all others."""


def _usual(forces: FloatArray) -> FloatArray:
    """Forces (atoms, 3) without those that are far larger than 99 % of them."""
    norms = np.linalg.norm(forces, axis=1)
    bound = HUGE * float(np.percentile(norms, 99)) if len(norms) else 0.0
    return forces[norms <= bound] if bound > 0 else forces


@dataclass(frozen=True)
class Setup:
    """Everything a run needs.

    Attributes:
        splits: The divided data.
        train, valid, test: Data sets with neighbour lists.
        plan: How to batch.
        references: Isolated-atom energies.
        baseline: Of the training set.
        potential: Ready to be trained.
        choices: What `auto` stands for.
        parent: The model that training starts from, in words; None for a new one.
    """

    splits: Splits
    train: Dataset
    valid: Dataset
    test: Dataset
    plan: BatchPlan
    references: References
    baseline: Baseline
    potential: Potential
    choices: list[Choice]
    parent: str | None = None


def prepare(config: TrainConfig, memory: InMemory | None = None) -> Setup:
    """Read, divide and check the data and build the potential.

    Args:
        config: The run's config.
        memory: Structures instead of files, see `load_splits`.
    """
    parent = None if config.finetune is None else open_model(config.finetune.model)
    splits = load_splits(config.data, memory)
    elements = _elements(splits, config.model.get("elements"))
    pooling = model_config(config.model, elements, None).pooling
    wanted = wanted_references(config.data.reference, elements, config.data)
    references = find_references([*splits.isolated, *splits.sample], elements, wanted, pooling)
    splits.warnings.extend(references.warnings)
    scale = energy_scale(config.data.scale, splits.sample, references)
    choices = [*_reference_choice(config, references), *_scale_choice(config, splits.sample, scale)]
    dtype = torch.float64 if config.precision == "float64" else torch.float32
    if config.finetune is not None:
        potential, references = start_from(config.finetune, elements, references, splits.sample)
    else:
        potential, found = _build(config, splits, elements, references, scale)
        choices += found
    potential.to(device=parallel.device(config.device), dtype=dtype)
    cache = Path(config.data.cache) if config.data.cache else None
    train, valid, test = (
        Dataset(frames, potential.cutoff, cache if frames is splits.train else None)
        for frames in (splits.train, splits.valid, splits.test)
    )
    _check_neighbours(train)
    plan = batch_plan(config, splits.train)
    if config.threads != "auto":
        torch.set_num_threads(config.threads)
    baseline = fit_baseline(splits.sample, elements, pooling, references.mode == "mean", references.energies)
    described = None if config.finetune is None or parent is None else _describe_parent(config.finetune.model, parent)
    choices = [*run_choices(config, splits.train, plan), *choices]
    return Setup(splits, train, valid, test, plan, references, baseline, potential, choices, described)


def _reference_choice(config: TrainConfig, references: References) -> list[Choice]:
    if config.data.reference != "auto":
        return []
    reasons = {
        "isolated": "the data hold an isolated atom of every element",
        "least-squares": "no isolated atom of every element in the data: one energy per element is fitted",
        "none": "no structure carries an energy",
    }
    return [Choice("data.reference", references.mode, reasons[references.mode])]


def _scale_choice(config: TrainConfig, frames: Sequence[Frame], scale: float) -> list[Choice]:
    if isinstance(config.data.scale, float):
        return []
    has_forces = any(frame.has_forces for frame in frames)
    reason = "root mean square force, eV/Å" if has_forces else "standard deviation of energies per atom, eV"
    if config.data.scale == "energy":
        reason = "standard deviation of the energies beyond the isolated atoms, eV"
    return [Choice("data.scale", scale, reason)]


def _check_neighbours(train: Dataset) -> None:
    """Refuse a cutoff within which no atom has a neighbour: nothing but the composition could be learned."""
    if int(train.edges.sum()) > 0:
        return
    _, shortest = near_contacts(representative(train.frames))
    near = "" if shortest is None else f" (the shortest distance is {shortest.distance:.3g} Å)"
    raise ConfigError(
        f"no atom of the {len(train)} training structures has a neighbour within the cutoff of {train.cutoff:g} Å{near}"
        "; raise model.cutoff, or check the unit of length (data.units.length)."
    )


def _describe_parent(name: str, parent: tuple[Potential, ModelInfo]) -> str:
    """Which model a run starts from, for people."""
    info = parent[1]
    errors = info.provenance.get("errors", {})
    found = errors.get("test") or errors.get("validation") or {}
    error = found.get("force_mae_mev_per_a")
    parts = [" ".join(info.elements), str(info.provenance.get("level_of_theory") or "level of theory not stated")]
    parts += [] if error is None else [f"force MAE {error:.1f} meV/Å on its own data"]
    return f"{name} ({', '.join(parts)})"


def _elements(splits: Splits, asked: Any) -> tuple[int, ...]:
    """Elements of the data and those that the user asks for beside them; some that cannot be learned are named."""
    learned = elements_of(splits.train)
    every = learned | elements_of([*splits.valid, *splits.test])
    extra = set(element_numbers(asked)) if asked else set()
    unseen = ", ".join(symbol(number) for number in sorted((every | extra) - learned))
    if unseen:
        splits.warnings.append(f"no training structure holds {unseen}: predictions for such atoms have no meaning.")
    return tuple(sorted(every | extra))


def model_config(options: dict[str, Any], elements: tuple[int, ...], average_neighbours: float | None) -> AnyConfig:
    """The model's config: preset, the user's options, and what follows from the data."""
    options = {name: value for name, value in options.items() if name != "elements"}
    name = str(options.pop("preset", "default"))
    known = type(preset(name, elements=elements)).model_fields
    if average_neighbours is not None and "average_neighbours" in known:
        options.setdefault("average_neighbours", round(average_neighbours, 3))
    return preset(name, **{"elements": elements, **options})


def _build(
    config: TrainConfig, splits: Splits, elements: tuple[int, ...], references: References, scale: float
) -> tuple[Potential, list[Choice]]:
    frames = splits.sample
    choices = model_choices(config.model, splits.train)
    options = {**config.model, **{choice.option.removeprefix("model."): choice.value for choice in choices}}
    cutoff = model_config(options, elements, None).cutoff
    neighbours = Dataset(sample(frames), cutoff).average_neighbours()
    built = model_config(options, elements, neighbours)
    if "average_neighbours" not in options and hasattr(built, "average_neighbours"):
        reason = f"mean number of neighbours within {cutoff:g} Å"
        choices.append(Choice("model.average_neighbours", built.average_neighbours, reason))
    if built.repulsion != "none" and not built.repulsion_distances:
        distances = repulsion_distances(frames)
        choices.append(Choice("model.repulsion_distances", distances, "shortest distances of the training set, Å"))
        built = built.model_copy(update={"repulsion_distances": distances})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        reference = AtomicReference(elements, references.energies, scale, references.constant)
        potential = build_from_config(built, reference)
    _start_at_mean(potential, frames, references)
    return potential, choices


def _start_at_mean(potential: Potential, frames: Sequence[Frame], references: References) -> None:
    """Let the energies of the untrained model be right on average.

    Beyond isolated atoms that were not fitted there is the energy of all bonds, about 5 eV per atom: a network would
    need many steps to learn this one number.
    """
    bias = getattr(potential.model, "energy_bias", None)
    labelled = [frame for frame in frames if frame.has_energy]
    if bias is None or not labelled:
        return
    residuals = [(float(f.energy or 0.0) - references.of(f)) / references.shares(f) for f in labelled]
    with torch.no_grad():
        bias.fill_(float(np.median(residuals)) / float(potential.reference.scale))
