"""From a config to everything a run needs: data divided and checked, references, scale, a potential."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from ase.data import atomic_numbers

from cliffordstf.data.bonds import is_one_molecule
from cliffordstf.data.dataset import BatchPlan, Dataset
from cliffordstf.data.exclusions import leave_out, read_ids
from cliffordstf.data.frame import Frame
from cliffordstf.data.free_atoms import mask_fixed_atoms
from cliffordstf.data.indices import read_indices
from cliffordstf.data.linear_references import linear_references
from cliffordstf.data.readers import Source, read_frames
from cliffordstf.data.references import ReferenceMode, References, find_references
from cliffordstf.data.relaxations import first_with_last_energy
from cliffordstf.data.splits import fingerprints, leaked, random_split, systems_of
from cliffordstf.data.structure import FloatArray, Structure, element_numbers, symbol
from cliffordstf.data.system_references import read_system_references, take_off
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.model.build import build_from_config
from cliffordstf.model.config import AnyConfig
from cliffordstf.model.potential import Potential
from cliffordstf.model.presets import preset
from cliffordstf.model.reference import AtomicReference
from cliffordstf.train import parallel
from cliffordstf.train.config import FEW_STRUCTURES, DataConfig, TrainConfig
from cliffordstf.train.finetune import start_from


@dataclass(frozen=True)
class Splits:
    """The divided data.

    Attributes:
        train, valid, test: Labelled structures; valid and test may be empty.
        sources: What each file turned out to be.
        warnings: What the user should know.
        learned: Fingerprints of the training set: by them a further test set can be told from it.
    """

    train: list[Frame]
    valid: list[Frame]
    test: list[Frame]
    sources: list[Source]
    warnings: list[str]
    learned: frozenset[str]


def load_splits(config: DataConfig) -> Splits:
    """Read the files and divide them.

    Raises:
        DataError: A file cannot be read, a set is empty, or no structure carries a label.
    """
    frames, source, warnings = load_frames(config.train, config)
    sources = [source]
    held_out: dict[str, list[Frame]] = {}
    fractions = {"valid": 0.0, "test": 0.0}
    picked: set[int] = set()
    for name, value, indices in (
        ("valid", config.valid, config.valid_indices),
        ("test", config.test, config.test_indices),
    ):
        if indices is not None:
            if isinstance(value, str):
                raise ConfigError(f"data.{name}={value} and data.{name}_indices are both given; give one of them.")
            chosen = read_indices(indices, len(frames)).tolist()
            held_out[name] = [frames[i] for i in chosen]
            picked.update(chosen)
        elif isinstance(value, str):
            held_out[name], other, more = load_frames(value, config)
            sources.append(other)
            warnings += more
        else:
            fractions[name] = value
    if config.train_indices is not None:
        pool = [frames[i] for i in read_indices(config.train_indices, len(frames))]
    else:
        pool = [frame for i, frame in enumerate(frames) if i not in picked]
    train, valid, test = random_split(
        len(pool), fractions["valid"], fractions["test"], config.split_seed, config.train_size, systems_of(pool)
    )
    sets = {
        "training": [pool[i] for i in train],
        "validation": held_out.get("valid", [pool[i] for i in valid]),
        "test": held_out.get("test", [pool[i] for i in test]) if config.judge_test else [],
    }
    _check_labels(sets["training"], source)
    prints = {name: fingerprints(members) for name, members in sets.items()}
    warnings += _leaks(sets, prints)
    train_frames, valid_frames, test_frames = sets.values()
    return Splits(train_frames, valid_frames, test_frames, sources, warnings, frozenset(prints["training"]))


def load_frames(path: str, config: DataConfig) -> tuple[list[Frame], Source, list[str]]:
    """Frames of a file as the options want them, and warnings."""
    frames, source = read_frames(path, config.units, config.keys)
    warnings = list(source.warnings)
    if config.exclude is not None:
        frames, counts = leave_out(frames, read_ids(config.exclude), path)
        warnings += counts
    if config.system_reference is not None:
        frames = take_off(frames, read_system_references(config.system_reference), path)
    if config.relaxations:
        frames = first_with_last_energy(frames)
    if config.ignore_cells:
        frames = [replace(frame, structure=_alone(frame.structure), stress=None) for frame in frames]
    if config.free_atoms_only:
        frames, unknown = mask_fixed_atoms(frames, path)
        warnings += unknown
    return frames, source, warnings


def _alone(structure: Structure) -> Structure:
    return Structure(structure.numbers, structure.positions, name=structure.name)


def _check_labels(frames: Sequence[Frame], source: Source) -> None:
    if not any(frame.has_energy or frame.has_forces for frame in frames):
        raise DataError(
            f"no structure of {source.path} carries an energy or forces under the keys {source.keys}; name them with "
            "data.keys.energy=… and data.keys.forces=…, 'cliffordstf data inspect' shows what the file holds."
        )


def _leaks(sets: dict[str, list[Frame]], prints: dict[str, list[str]]) -> list[str]:
    names = list(sets)
    found = []
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            pairs = leaked(prints[first], prints[second])
            if pairs:
                found.append(
                    f"{len(pairs)} of {len(sets[second])} {second} structures are also in the {first} set (for example "
                    f"{sets[second][pairs[0][1]].structure.name}): errors on them say nothing about new structures."
                )
    return found


def label_coverage(frames: Sequence[Frame]) -> dict[str, int]:
    """How many structures carry each label."""
    return {
        "energy": sum(frame.has_energy for frame in frames),
        "forces": sum(frame.has_forces for frame in frames),
        "stress": sum(frame.has_stress for frame in frames),
    }


def energy_scale(asked: float | str, frames: Sequence[Frame], references: References) -> float:
    """Energy that the model's numbers are in, eV, see `data.scale`."""
    if isinstance(asked, float):
        return asked
    return energy_spread(frames, references) if asked == "energy" else force_scale(frames, references)


SMALLEST_SCALE = 1e-3
"""eV; labels that do not differ give none."""


def energy_spread(frames: Sequence[Frame], references: References) -> float:
    """Standard deviation of the energies beyond the free atoms, eV."""
    residuals = [float(f.energy) - references.of(f) for f in frames if f.energy is not None and f.has_energy]
    return max(float(np.std(residuals)) if residuals else 0.0, SMALLEST_SCALE)


def force_scale(frames: Sequence[Frame], references: References) -> float:
    """The energy scale: root mean square force component of the training set, eV/Å, a few huge forces left out.

    Without forces, the standard deviation of the energy per atom beyond the free atoms, eV.
    """
    parts = [frame.forces[np.isfinite(frame.forces).all(axis=1)] for frame in frames if frame.forces is not None]
    forces = _usual(np.concatenate(parts)) if parts else np.zeros((0, 3))
    if len(forces) and (rms := float(np.sqrt((forces**2).mean()))) > 1e-6:
        return rms
    residuals = [
        (float(f.energy) - references.of(f)) / references.shares(f)
        for f in frames
        if f.energy is not None and f.has_energy
    ]
    return max(float(np.std(residuals)) if residuals else 0.0, SMALLEST_SCALE)


HUGE = 10.0
"""Times the 99th percentile of the forces' norms. Relaxations may start with atoms on top of each other; one such
structure would set the scale of all others."""


def _usual(forces: FloatArray) -> FloatArray:
    """Forces (atoms, 3) without those that are far larger than 99 % of them."""
    norms = np.linalg.norm(forces, axis=1)
    bound = HUGE * float(np.percentile(norms, 99)) if len(norms) else 0.0
    return forces[norms <= bound] if bound > 0 else forces


FEW_CUTOFF = 4.0
"""Å, for few frames of single molecules: what a short cutoff does not see need not be learned (docs/recipe.md)."""

SMALL_MOLECULE, FEW_LAYERS = 12, 3
"""Few frames of molecules of at most so many atoms are learned one at a time, by so many layers (docs/recipe.md)."""


@dataclass(frozen=True)
class Setup:
    """Everything a run needs.

    Attributes:
        splits: The divided data.
        train, valid, test: Data sets with neighbour lists.
        plan: How to batch.
        references: Free-atom energies.
        potential: Ready to be trained.
    """

    splits: Splits
    train: Dataset
    valid: Dataset
    test: Dataset
    plan: BatchPlan
    references: References
    potential: Potential


def prepare(config: TrainConfig) -> Setup:
    """Read, divide and check the data and build the potential."""
    splits = load_splits(config.data)
    elements = _elements(splits, config.model.get("elements"))
    pooling = model_config(config.model, elements, None).pooling
    wanted = _wanted_references(config.data.reference, elements)
    references = find_references(splits.train, elements, wanted, pooling)
    splits.warnings.extend(references.warnings)
    scale = energy_scale(config.data.scale, splits.train, references)
    dtype = torch.float64 if config.precision == "float64" else torch.float32
    if config.finetune is not None:
        potential, references = start_from(config.finetune, elements, references, splits.train)
    else:
        potential = _build(config, splits.train, elements, references, scale)
    potential.to(device=parallel.device(config.device), dtype=dtype)
    cache = Path(config.data.cache) if config.data.cache else None
    train, valid, test = (
        Dataset(frames, potential.cutoff, cache if frames is splits.train else None)
        for frames in (splits.train, splits.valid, splits.test)
    )
    plan = _plan(config, splits.train)
    if config.threads != "auto":
        torch.set_num_threads(config.threads)
    return Setup(splits, train, valid, test, plan, references, potential)


def _elements(splits: Splits, asked: Any) -> tuple[int, ...]:
    """Elements of the data and those that the user asks for beside them; some that cannot be learned are named."""
    learned, every = (
        {int(number) for frame in frames for number in frame.structure.numbers}
        for frames in (splits.train, [*splits.train, *splits.valid, *splits.test])
    )
    extra = set(element_numbers(asked)) if asked else set()
    unseen = ", ".join(symbol(number) for number in sorted((every | extra) - learned))
    if unseen:
        splits.warnings.append(
            f"no training structure holds {unseen}: the model will give numbers for such atoms that mean nothing."
        )
    return tuple(sorted(every | extra))


def _wanted_references(wanted: str | dict[str, float], elements: tuple[int, ...]) -> ReferenceMode | dict[int, float]:
    if isinstance(wanted, dict):
        return _by_number(wanted)
    return linear_references(wanted, elements) if wanted.endswith(".npz") else cast("ReferenceMode", wanted)


def _by_number(energies: dict[str, float]) -> dict[int, float]:
    unknown = [name for name in energies if name not in atomic_numbers]
    if unknown:
        raise ConfigError(f"data.reference names '{unknown[0]}', which is not a chemical symbol.")
    return {int(atomic_numbers[name]): float(value) for name, value in energies.items()}


def model_config(options: dict[str, Any], elements: tuple[int, ...], average_neighbours: float | None) -> AnyConfig:
    """The model's config: preset, the user's options, and what follows from the data."""
    options = {name: value for name, value in options.items() if name != "elements"}
    name = str(options.pop("preset", "default"))
    known = type(preset(name, elements=elements)).model_fields
    if average_neighbours is not None and "average_neighbours" in known:
        options.setdefault("average_neighbours", round(average_neighbours, 3))
    return preset(name, **{"elements": elements, **options})


def _build(
    config: TrainConfig, frames: list[Frame], elements: tuple[int, ...], references: References, scale: float
) -> Potential:
    sample = _sample(frames)
    options = local_options(config.model, sample) if are_few_molecules(frames) else config.model
    cutoff = model_config(options, elements, None).cutoff
    neighbours = Dataset(sample, cutoff).average_neighbours()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        reference = AtomicReference(elements, references.energies, scale, references.constant)
        return build_from_config(model_config(options, elements, neighbours), reference)


def _sample(frames: list[Frame]) -> list[Frame]:
    """At most two hundred of them, evenly spread."""
    return frames[:: max(1, len(frames) // 100)]


def are_few_molecules(frames: list[Frame]) -> bool:
    """Whether a training set is small and every structure of it one molecule."""
    return len(frames) < FEW_STRUCTURES and all(is_one_molecule(frame.structure) for frame in _sample(frames))


def local_options(options: dict[str, Any], frames: Sequence[Frame]) -> dict[str, Any]:
    """Options for few frames of single molecules, where nobody asked for others.

    Bonds carry what happens between distant atoms of a molecule; between two molecules nothing would.
    """
    name = str(options.get("preset", "default"))
    if not name.startswith("default"):
        return options
    found: dict[str, Any] = {"cutoff": FEW_CUTOFF}
    if name == "default" and _usual_size(frames) <= SMALL_MOLECULE:
        found["layers"] = FEW_LAYERS
    return {**found, **options}


def _usual_size(frames: Sequence[Frame]) -> float:
    return float(np.median([len(frame.structure) for frame in frames]))


def _plan(config: TrainConfig, train: list[Frame]) -> BatchPlan:
    size = config.batch_size
    if size == "auto":
        has_forces = config.loss.forces.is_used and any(frame.has_forces for frame in train)
        atoms = 25 if len(train) < FEW_STRUCTURES else 100 if has_forces else 300
        usual = _usual_size(train)
        is_single = usual <= SMALL_MOLECULE and are_few_molecules(train)
        size = 1 if is_single else int(np.clip(round(atoms / usual), 1, 32))
    return BatchPlan(size, config.max_atoms, config.max_edges)
