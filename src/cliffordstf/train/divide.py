"""Training, validation and test structures from files, checked: labels, leakage, duplicates, outliers."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cliffordstf.data.duplicates import Duplicates, Mark, find_duplicates, marks, shared
from cliffordstf.data.frame import Frame
from cliffordstf.data.indices import read_indices
from cliffordstf.data.load import Loaded, load_frames
from cliffordstf.data.outliers import Outlier, find_outliers
from cliffordstf.data.readers import Source
from cliffordstf.data.readers.labels import NO_FORCES
from cliffordstf.data.references import split_isolated
from cliffordstf.data.shards.stored import (
    SAMPLE,
    StoredFrames,
    open_stored,
    picked,
    representative,
    stays_on_disk,
)
from cliffordstf.data.splits import random_split, systems_of
from cliffordstf.data.structure import symbol
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.options.text import did_you_mean
from cliffordstf.train.config import DataConfig

UNLABELLED = "Default"
"""Label of structures without one in `data.config_type_weights`."""
SHOWN = 3
"""Structures that a warning names."""

InMemory = Mapping[str, Sequence[Frame]]
"""Structures that are not read from files, by the option that they stand for: train, valid, test."""


@dataclass(frozen=True)
class Splits:
    """The divided data.

    Attributes:
        train, valid, test: Labelled structures; valid and test may be empty. Isolated atoms are in none of them. Those
            for training may stay on disk, see `data.in_memory`.
        isolated: Isolated atoms of the training data.
        sources: What each file turned out to be.
        warnings: What the user should know.
        learned: Marks of the sample, by which a further test set can be told from it.
        sample: The training set, or of one on disk some structures of it: what checks, fits and choices look at.
    """

    train: Sequence[Frame]
    valid: list[Frame]
    test: list[Frame]
    isolated: list[Frame]
    sources: list[Source]
    warnings: list[str]
    learned: tuple[Mark, ...]
    sample: list[Frame]


def load_splits(config: DataConfig, memory: InMemory | None = None) -> Splits:
    """Read the files and divide them.

    Args:
        config: Files, and how to divide them.
        memory: Structures instead of files.

    Raises:
        DataError: A file cannot be read, a set is empty, or no structure carries a label.
    """
    reader = _Reader(config, memory or {})
    frames = reader.read_training()
    held_out: dict[str, list[Frame]] = {}
    fractions = {"valid": 0.0, "test": 0.0}
    elsewhere: set[int] = set()
    for name, value, indices in (
        ("valid", config.valid, config.valid_indices),
        ("test", config.test, config.test_indices),
    ):
        is_file = name in reader.memory or not isinstance(value, float | int)
        if indices is not None:
            if is_file:
                raise ConfigError(f"data.{name}={value} and data.{name}_indices are both given; give one of them.")
            chosen = read_indices(indices, len(frames)).tolist()
            held_out[name] = [frames[i] for i in chosen]
            elsewhere.update(chosen)
        elif is_file:
            held_out[name] = reader.read(name)
        else:
            fractions[name] = float(value)  # type: ignore[arg-type]
    if config.train_indices is not None:
        pool = picked(frames, read_indices(config.train_indices, len(frames)))
    else:
        pool = picked(frames, [i for i in range(len(frames)) if i not in elsewhere]) if elsewhere else frames
    isolated, pool = _without_isolated(pool)
    if not pool:
        raise DataError(f"{reader.name} holds isolated atoms only, so there is nothing to learn; add structures.")
    train, valid, test = random_split(
        len(pool), fractions["valid"], fractions["test"], config.split_seed, config.train_size, _systems(pool)
    )
    sets = {
        "validation": held_out.get("valid", [pool[int(i)] for i in valid]),
        "test": held_out.get("test", [pool[int(i)] for i in test]) if config.judge_test else [],
    }
    training = _weighted(picked(pool, train), config.config_type_weights)
    sample = representative(training)
    _check_labels(sample, reader.sources[0], reader.name)
    found = _checked({"training": sample, **sets}, isolated, reader)
    return replace(found, train=training)


def _without_isolated(frames: Sequence[Frame]) -> tuple[list[Frame], Sequence[Frame]]:
    """Isolated atoms, and all other structures; of those on disk only lone atoms are read."""
    if not isinstance(frames, StoredFrames):
        return split_isolated(frames)
    isolated = {int(i): frame for i in np.flatnonzero(frames.atoms == 1) if (frame := frames[int(i)]).is_isolated_atom}
    if not isolated:
        return [], frames
    return list(isolated.values()), frames.subset([i for i in range(len(frames)) if i not in isolated])


def _systems(frames: Sequence[Frame]) -> list[Hashable] | None:
    return frames.systems() if isinstance(frames, StoredFrames) else systems_of(frames)


class _Reader:
    """Reads the sets and collects what files turned out to be."""

    def __init__(self, config: DataConfig, memory: InMemory) -> None:
        self.config, self.memory = config, memory
        self.sources: list[Source] = []
        self.warnings: list[str] = []
        self.missing: list[str] = []
        self.name = ""

    def read_training(self) -> Sequence[Frame]:
        """Structures to learn from; of sets larger than memory they stay on disk."""
        given = self.config.train if isinstance(self.config.train, list) else [self.config.train]
        if "train" in self.memory or not stays_on_disk(given, self.config.in_memory):
            return self.read("train")
        if self.config.cache is not None:
            raise ConfigError("data.cache keeps neighbour lists of structures in memory; leave it out.")
        frames = open_stored(given, self.config)
        self.name = str(frames.sources[0].path) if len(frames.sources) == 1 else "the training data"
        self.sources += frames.sources
        self.warnings.append(
            f"the {len(frames):,} training structures stay on disk: duplicates, leakage, outliers, reference energies "
            f"and scale are judged by {min(SAMPLE, len(frames)):,} of them."
        )
        return frames

    def read(self, name: str) -> list[Frame]:
        """Structures of an option: train, valid or test."""
        loaded: Loaded = load_frames(self.memory.get(name, getattr(self.config, name)), self.config)
        self.name = self.name or (str(loaded.sources[0].path) if len(loaded.sources) == 1 else "the training data")
        self.sources += loaded.sources
        # Whether forces are missing is judged by the training set as a whole.
        self.missing += [warning for warning in loaded.warnings if warning.startswith(NO_FORCES)]
        known = (*self.warnings, *self.missing)
        self.warnings += [warning for warning in loaded.warnings if warning not in known]
        return loaded.frames


def _checked(sets: dict[str, list[Frame]], isolated: list[Frame], reader: _Reader) -> Splits:
    lone: list[Frame] = list(isolated)
    for name in ("validation", "test"):
        atoms, sets[name] = split_isolated(sets[name])
        lone += atoms
    known = {name: marks(members) for name, members in sets.items()}
    warnings = [*reader.warnings]
    if not any(frame.has_forces for frame in sets["training"]):
        keys = reader.missing[0].removeprefix(NO_FORCES).partition(";")[0] if reader.missing else ""
        warnings.append(
            f"energies only: no training structure carries forces{keys}, so the model learns from energies alone; if "
            "there are forces, name their key with data.keys.forces."
        )
    if lone:
        names = ", ".join(dict.fromkeys(symbol(int(frame.structure.numbers[0])) for frame in lone))
        warnings.append(
            f"{len(lone)} isolated atoms ({names}) serve as reference energies at most: the model is not trained or "
            "tested on them."
        )
    warnings += _leaks(sets, known)
    warnings += describe_duplicates(find_duplicates(sets["training"], known["training"]), sets["training"])
    warnings += describe_outliers(find_outliers(sets["training"])[0], "training")
    train, valid, test = sets.values()
    return Splits(train, valid, test, isolated, reader.sources, warnings, tuple(known["training"]), train)


def _check_labels(frames: Sequence[Frame], source: Source, name: str) -> None:
    if not any(frame.has_energy or frame.has_forces for frame in frames):
        raise DataError(
            f"no structure of {name} carries an energy or forces under the keys {source.keys}; name them with "
            "data.keys.energy=… and data.keys.forces=…, 'cliffordstf data inspect' shows what the file holds."
        )


def _weighted(frames: Sequence[Frame], weights: Mapping[str, float]) -> Sequence[Frame]:
    """Frames whose weights are multiplied by that of their label."""
    if not weights:
        return frames
    if isinstance(frames, StoredFrames):
        raise ConfigError(
            "data.config_type_weights needs all structures in memory; write config_weight into the files before they "
            "are converted, or set data.in_memory=true."
        )
    labels = Counter(frame.config_type or UNLABELLED for frame in frames)
    unknown = [label for label in weights if label not in labels and label != UNLABELLED]
    if unknown:
        raise ConfigError(
            f"data.config_type_weights names '{unknown[0]}', but no training structure is labelled so"
            f"{did_you_mean(unknown[0], labels)}; labels are: {', '.join(labels)}."
        )
    factors = [weights.get(frame.config_type or UNLABELLED, 1.0) for frame in frames]
    return [
        frame if factor == 1 else replace(frame, weights=_times(factor, frame.weights))
        for frame, factor in zip(frames, factors, strict=True)
    ]


def _times(factor: float, weights: tuple[float, float, float]) -> tuple[float, float, float]:
    energy, forces, stress = weights
    return factor * energy, factor * forces, factor * stress


def _leaks(sets: Mapping[str, list[Frame]], known: Mapping[str, Sequence[Mark]]) -> list[str]:
    names = list(sets)
    found = []
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            pairs = shared(known[first], known[second])
            if pairs:
                found.append(
                    f"{len(pairs)} of {len(sets[second])} {second} structures are also in the {first} set (leakage; "
                    f"for example {sets[second][pairs[0][1]].structure.name}): errors on them do not "
                    "measure accuracy on new structures."
                )
    return found


def describe_duplicates(groups: Sequence[Duplicates], frames: Sequence[Frame]) -> list[str]:
    """Warnings about equal structures, first about those whose labels differ."""
    lines = []
    contradicting = [group for group in groups if group.contradicts]
    if contradicting:
        worst = max(group.energy_difference or 0.0 for group in contradicting)
        lines.append(
            f"{len(contradicting)} groups of equal training structures have different labels "
            f"({_examples(contradicting, frames)}; energies up to {1000 * worst:.3g} meV apart): no model can fit both."
        )
    agreeing = [group for group in groups if not group.contradicts]
    if agreeing:
        extra = sum(len(group.members) - 1 for group in agreeing)
        lines.append(f"{extra} training structures are repetitions of others ({_examples(agreeing, frames)}).")
    return lines


def _examples(groups: Sequence[Duplicates], frames: Sequence[Frame]) -> str:
    first = groups[0].members[:2]
    return "for example " + " = ".join(frames[index].structure.name for index in first)


def describe_outliers(outliers: Sequence[Outlier], name: str) -> list[str]:
    """Warnings about what is out of line, one for each kind."""
    lines = []
    for kind in dict.fromkeys(outlier.kind for outlier in outliers):
        texts = [outlier.text for outlier in outliers if outlier.kind == kind]
        more = f"; and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
        lines.append(f"{name} set, {kind} out of line: {'; '.join(texts[:SHOWN])}{more}.")
    return lines
