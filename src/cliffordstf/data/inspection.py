"""What is in a data set: sizes, elements, labels and their spread, duplicates, outliers, and the baseline."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from ase.formula import Formula

from cliffordstf.data.frame import Frame
from cliffordstf.data.neighbours import edge_vectors, neighbour_list
from cliffordstf.data.readers import Source
from cliffordstf.data.structure import FloatArray, Structure, symbol
from cliffordstf.errors import DataError, StructureError

SAME = 1e-6
"""Å: structures whose atoms and cells differ by less are the same."""
LARGEST_FORCE = 50.0
"""eV/Å: a larger force is an outlier wherever it occurs."""
FORCE_FACTOR = 10.0
"""So is one beyond this many times the 99th percentile."""
ENERGY_DEVIATIONS = 8.0
"""An energy per atom is an outlier beyond this many median absolute deviations within its composition."""
FEWEST_FOR_DEVIATION = 10
LARGEST_SHARE = 0.05
"""Where more of a composition are that far out, they are another population, such as a second temperature."""
MEV = 1000.0


@dataclass(frozen=True)
class Coverage:
    """How many structures carry a label, and how many only in part (some entries are NaN)."""

    complete: int
    partial: int
    missing: int


@dataclass(frozen=True)
class Statistics:
    """Spread of the labels; None where there are none. Energies in eV/atom, forces in eV/Å, stress in eV/Å³."""

    energy_per_atom_mean: float | None
    energy_per_atom_std: float | None
    force_norm_mean: float | None
    force_component_rms: float | None
    force_norm_max: float | None
    stress_component_mean_abs: float | None
    stress_component_max_abs: float | None


@dataclass(frozen=True)
class ShortestDistance:
    """The closest pair of atoms of all structures, Å."""

    distance: float
    pair: str
    structure: str


@dataclass(frozen=True)
class Baseline:
    """Mean absolute errors of a model that knows nothing: a constant energy and zero forces.

    Attributes:
        energy_mae_mev, energy_mae_mev_per_atom: Against the mean of each composition, or where compositions hardly
            repeat, against a least-squares sum of one energy per element.
        energy_constant: Which of the two it was.
        force_mae_mev_per_a: Mean absolute force component, meV/Å.
    """

    energy_mae_mev: float | None
    energy_mae_mev_per_atom: float | None
    energy_constant: str
    force_mae_mev_per_a: float | None


@dataclass(frozen=True)
class Inspection:
    """Everything that `inspect_frames` finds; counts are of structures unless they say otherwise."""

    source: Source
    structures: int
    atoms: int
    atoms_min: int
    atoms_median: float
    atoms_max: int
    elements: dict[str, int]
    compositions: dict[str, int]
    periodicity: dict[str, int]
    coverage: dict[str, Coverage]
    statistics: Statistics
    duplicates: tuple[tuple[str, ...], ...]
    outliers: tuple[str, ...]
    shortest_distance: ShortestDistance | None
    baseline: Baseline

    def as_json(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        values = asdict(self)
        values["source"]["path"] = str(self.source.path)
        return values


def inspect_frames(frames: list[Frame], source: Source) -> Inspection:
    """Look at every structure and label of a data set.

    Raises:
        DataError: There are no frames.
    """
    if not frames:
        raise DataError("there are no structures to inspect; check the data file.")
    sizes = np.array([len(frame.structure) for frame in frames])
    elements = Counter(np.concatenate([frame.structure.numbers for frame in frames]).tolist())
    compositions = Counter(_formula(frame.structure) for frame in frames)
    shortest, overlaps = _shortest_distance(frames)
    return Inspection(
        source=source,
        structures=len(frames),
        atoms=int(sizes.sum()),
        atoms_min=int(sizes.min()),
        atoms_median=float(np.median(sizes)),
        atoms_max=int(sizes.max()),
        elements={symbol(number): elements[number] for number in sorted(elements)},
        compositions=dict(compositions.most_common()),
        periodicity=dict(Counter(_periodicity(frame.structure) for frame in frames).most_common()),
        coverage={
            "energy": _coverage([None if frame.energy is None else np.array([frame.energy]) for frame in frames]),
            "forces": _coverage([frame.forces for frame in frames]),
            "stress": _coverage([frame.stress for frame in frames]),
        },
        statistics=_statistics(frames),
        duplicates=tuple(_duplicates(frames)),
        outliers=(*overlaps, *_force_outliers(frames), *_energy_outliers(frames)),
        shortest_distance=shortest,
        baseline=_baseline(frames),
    )


def _formula(structure: Structure) -> str:
    numbers, counts = np.unique(structure.numbers, return_counts=True)
    return str(Formula.from_dict({symbol(int(n)): int(c) for n, c in zip(numbers, counts, strict=True)}).format("hill"))


def _periodicity(structure: Structure) -> str:
    names = ("molecule", "periodic in one direction", "periodic in two directions", "periodic in three directions")
    return names[int(structure.pbc.sum())]


def _coverage(labels: list[FloatArray | None]) -> Coverage:
    finite = [0.0 if label is None else float(np.isfinite(label).mean()) for label in labels]
    complete, missing = sum(share == 1 for share in finite), sum(share == 0 for share in finite)
    return Coverage(complete, len(labels) - complete - missing, missing)


def _finite_forces(frames: list[Frame]) -> FloatArray:
    forces = [frame.forces for frame in frames if frame.forces is not None]
    joined = np.concatenate(forces) if forces else np.zeros((0, 3))
    return joined[np.isfinite(joined).all(axis=1)]


def _with_energy(frames: list[Frame]) -> tuple[list[Frame], FloatArray]:
    labelled = [frame for frame in frames if frame.has_energy]
    return labelled, np.array([frame.energy for frame in labelled], dtype=np.float64)


def _statistics(frames: list[Frame]) -> Statistics:
    labelled, energies = _with_energy(frames)
    per_atom = energies / np.array([len(frame.structure) for frame in labelled])
    forces = _finite_forces(frames)
    norms = np.linalg.norm(forces, axis=1)
    stresses = np.array([frame.stress for frame in frames if frame.has_stress])
    return Statistics(
        energy_per_atom_mean=_or_none(per_atom, np.mean),
        energy_per_atom_std=_or_none(per_atom, np.std),
        force_norm_mean=_or_none(norms, np.mean),
        force_component_rms=_or_none(forces**2, lambda squares: np.sqrt(np.mean(squares))),
        force_norm_max=_or_none(norms, np.max),
        stress_component_mean_abs=_or_none(np.abs(stresses), np.mean),
        stress_component_max_abs=_or_none(np.abs(stresses), np.max),
    )


def _or_none(values: FloatArray, reduce: Any) -> float | None:
    return float(reduce(values)) if values.size else None


def _duplicates(frames: list[Frame]) -> Iterator[tuple[str, ...]]:
    """Groups of the same structure: same atoms in the same order, same cell, no coordinate further apart than SAME."""
    kinds: dict[bytes, list[int]] = defaultdict(list)
    coordinates = []
    for index, frame in enumerate(frames):
        structure = frame.structure
        kinds[structure.pbc.tobytes() + structure.numbers.tobytes()].append(index)
        coordinates.append(
            np.concatenate([structure.positions.ravel(), (structure.cell * structure.pbc[:, None]).ravel()])
        )
    for members in kinds.values():
        # Equal structures have equal projections; rounding to a grid instead would split pairs at its edges.
        weights = np.cos(np.arange(len(coordinates[members[0]]), dtype=np.float64))
        marks = np.array([coordinates[index] @ weights for index in members])
        order = np.argsort(marks, kind="stable")
        reach = SAME * float(np.abs(weights).sum())
        taken: set[int] = set()
        for position, first in enumerate(order):
            if first in taken:
                continue
            end = int(np.searchsorted(marks[order], marks[first] + reach, side="right"))
            same = [
                int(other)
                for other in order[position + 1 : end]
                if np.abs(coordinates[members[other]] - coordinates[members[first]]).max() < SAME
            ]
            if same:
                taken.update(same)
                yield tuple(frames[members[item]].structure.name for item in sorted([int(first), *same]))


def _force_outliers(frames: list[Frame]) -> Iterator[str]:
    norms = np.linalg.norm(_finite_forces(frames), axis=1)
    if not len(norms):
        return
    usual = float(np.percentile(norms, 99))
    bound = min(LARGEST_FORCE, FORCE_FACTOR * usual) if usual > 0 else LARGEST_FORCE
    for frame in frames:
        if frame.forces is not None and frame.has_forces:
            largest = float(np.nanmax(np.linalg.norm(frame.forces, axis=1)))
            if largest > bound:
                yield f"{frame.structure.name}: largest force {largest:.1f} eV/Å (99 % are below {usual:.2f})"


def _energy_outliers(frames: list[Frame]) -> Iterator[str]:
    groups: dict[str, list[Frame]] = defaultdict(list)
    for frame in frames:
        if frame.has_energy:
            groups[_formula(frame.structure)].append(frame)
    for formula, members in groups.items():
        if len(members) < FEWEST_FOR_DEVIATION:
            continue
        per_atom = np.array([frame.energy for frame in members], dtype=np.float64) / len(members[0].structure)
        distance = np.abs(per_atom - np.median(per_atom))
        deviation = float(np.median(distance))
        far = np.flatnonzero(distance > ENERGY_DEVIATIONS * deviation)
        if deviation == 0 or len(far) > LARGEST_SHARE * len(members):
            continue
        for index in far:
            yield (
                f"{members[index].structure.name}: energy {distance[index]:.3f} eV/atom from the median of {formula} "
                f"({distance[index] / deviation:.0f} median deviations)"
            )


def _shortest_distance(frames: list[Frame]) -> tuple[ShortestDistance | None, list[str]]:
    """The closest pair of all, and what is wrong with structures whose atoms coincide."""
    best: ShortestDistance | None = None
    overlaps = []
    for frame in frames:
        structure = frame.structure
        for cutoff in (2.0, 4.0, 8.0) if best is None else (best.distance,):
            try:
                edges = neighbour_list(structure, cutoff)
            except StructureError as error:
                overlaps.append(str(error))
                break
            if len(edges.senders):
                lengths = np.linalg.norm(edge_vectors(structure.positions, structure.cell, edges), axis=1)
                closest = int(lengths.argmin())
                ends = (edges.receivers[closest], edges.senders[closest])
                pair = "-".join(sorted(symbol(int(structure.numbers[end])) for end in ends))
                best = ShortestDistance(float(lengths[closest]), pair, structure.name)
                break
    return best, overlaps


def _baseline(frames: list[Frame]) -> Baseline:
    labelled, energies = _with_energy(frames)
    forces = _finite_forces(frames)
    force_mae = _or_none(np.abs(forces) * MEV, np.mean)
    if not labelled:
        return Baseline(None, None, "no energies", force_mae)
    formulas = np.array([_formula(frame.structure) for frame in labelled])
    names, kind = np.unique(formulas, return_inverse=True)
    if 2 * len(names) <= len(labelled) or len(labelled) == 1:
        constant = (np.bincount(kind, weights=energies) / np.bincount(kind))[kind]
        which = "mean of each composition"
    else:
        counts = np.array([np.bincount(frame.structure.numbers, minlength=119) for frame in labelled], dtype=np.float64)
        constant = counts @ np.linalg.lstsq(counts, energies, rcond=None)[0]
        which = "least-squares energy of each element"
    error = np.abs(energies - constant) * MEV
    sizes = np.array([len(frame.structure) for frame in labelled])
    return Baseline(float(error.mean()), float((error / sizes).mean()), which, force_mae)
