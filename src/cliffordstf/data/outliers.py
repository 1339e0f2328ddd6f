"""Structures and labels that are out of line with the rest: energies, forces, atoms too close to each other."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from ase.data import covalent_radii

from cliffordstf.data.composition import fit_composition
from cliffordstf.data.frame import Frame
from cliffordstf.data.neighbours import edge_lengths, neighbour_list
from cliffordstf.data.structure import FloatArray, Structure, formula, symbol

LARGEST_FORCE = 50.0
"""eV/Å: a larger force is an outlier wherever it occurs."""
FORCE_FACTOR = 10.0
"""So is one beyond this many times the 99th percentile."""
ENERGY_DEVIATIONS = 8.0
"""An energy per atom is an outlier beyond this many median absolute deviations within its composition."""
FEWEST_FOR_DEVIATION = 10
LARGEST_SHARE = 0.05
"""Where more of a composition are that far out, they are another population, such as a second temperature."""
CLOSE = 0.55
"""Times the sum of covalent radii: closer atoms are no bond, even under high pressure."""


@dataclass(frozen=True)
class Outlier:
    """Something out of line.

    Attributes:
        index: Of the structure.
        kind: `energy`, `force` or `distance`.
        text: One sentence that names the structure.
    """

    index: int
    kind: str
    text: str


@dataclass(frozen=True)
class ShortestDistance:
    """The closest pair of atoms of all structures, Å."""

    distance: float
    pair: str
    structure: str


def find_outliers(frames: Sequence[Frame]) -> tuple[list[Outlier], ShortestDistance | None]:
    """Everything out of line, near contacts first, then forces, then energies; and the closest pair of atoms."""
    contacts, shortest = near_contacts(frames)
    return [*contacts, *force_outliers(frames), *energy_outliers(frames)], shortest


def near_contacts(frames: Sequence[Frame]) -> tuple[list[Outlier], ShortestDistance | None]:
    """Structures with atoms closer than any bond, and the closest pair of all."""
    found = []
    best: ShortestDistance | None = None
    for index, frame in enumerate(frames):
        closest = _closest(frame.structure, best.distance if best is not None else None)
        if closest is None:
            continue
        distance, first, second = closest
        names = [f"{atom} ({symbol(int(frame.structure.numbers[atom]))})" for atom in (first, second)]
        if distance < CLOSE * _radii(frame.structure, first, second):
            text = f"{frame.structure.name}: atoms {names[0]} and {names[1]} are {_length(distance)} Å apart"
            found.append(Outlier(index, "distance", f"{text}, closer than any bond of these elements"))
        if best is None or distance < best.distance:
            numbers = frame.structure.numbers
            pair = "-".join(sorted(symbol(int(numbers[atom])) for atom in (first, second)))
            best = ShortestDistance(distance, pair, frame.structure.name)
    return found, best


def _length(distance: float) -> str:
    return f"{distance:.3f}" if distance >= 0.01 else f"{distance:.1e}"


def _radii(structure: Structure, first: int, second: int) -> float:
    radii = covalent_radii[structure.numbers[[first, second]]]
    return float(radii.sum())


def _closest(structure: Structure, best: float | None) -> tuple[float, int, int] | None:
    """The pair of atoms that is closest for its elements, if it is worth a look: distance, receiver, sender."""
    largest = CLOSE * 2 * float(covalent_radii[structure.numbers].max())
    for cutoff in (2.0, 4.0, 8.0) if best is None else (max(best, largest),):
        edges = neighbour_list(structure, max(cutoff, largest), check=False)
        if len(edges.senders):
            lengths = edge_lengths(structure.positions, structure.cell, edges)
            radii = covalent_radii[structure.numbers]
            limits = CLOSE * (radii[edges.receivers] + radii[edges.senders])
            is_close = lengths < limits
            # A pair that is too close for its elements matters more than a short bond of hydrogen.
            edge = int(np.argmin(lengths / limits)) if is_close.any() else int(lengths.argmin())
            return float(lengths[edge]), int(edges.receivers[edge]), int(edges.senders[edge])
    return None


def finite_forces(frames: Sequence[Frame]) -> FloatArray:
    """All known forces, eV/Å, (atoms, 3)."""
    forces = [frame.forces for frame in frames if frame.forces is not None]
    joined = np.concatenate(forces) if forces else np.zeros((0, 3))
    return joined[np.isfinite(joined).all(axis=1)]


def force_outliers(frames: Sequence[Frame]) -> Iterator[Outlier]:
    """Structures with a force far above all others."""
    norms = np.linalg.norm(finite_forces(frames), axis=1)
    if not len(norms):
        return
    usual = float(np.percentile(norms, 99))
    for index, frame in enumerate(frames):
        if frame.forces is None or not frame.has_forces:
            continue
        largest = float(np.nanmax(np.linalg.norm(frame.forces, axis=1)))
        if usual > 0 and largest > FORCE_FACTOR * usual:
            reason = f"{largest / usual:.0f} times the 99th percentile of all forces ({usual:.3g} eV/Å)"
        elif largest > LARGEST_FORCE:
            reason = f"above {LARGEST_FORCE:g} eV/Å"
        else:
            continue
        yield Outlier(index, "force", f"{frame.structure.name}: largest force {largest:.1f} eV/Å, {reason}")


def energy_outliers(frames: Sequence[Frame]) -> Iterator[Outlier]:
    """Structures whose energy is far from those of the same composition, or from a fit of energies per element."""
    labelled = [(index, frame) for index, frame in enumerate(frames) if frame.has_energy and not frame.is_isolated_atom]
    known: set[int] = set()
    for outlier in _within_compositions(labelled):
        known.add(outlier.index)
        yield outlier
    rest = [frame for _, frame in labelled]
    elements = sorted({int(number) for frame in rest for number in frame.structure.numbers})
    if not rest:
        return
    fit = fit_composition(rest, elements)
    for place, deviation in zip(fit.out_of_line.tolist(), fit.deviations.tolist(), strict=True):
        index, frame = labelled[place]
        if index not in known:
            text = f"energy {deviation:+.3g} eV/atom from what its composition suggests"
            yield Outlier(index, "energy", f"{frame.structure.name}: {text}")


def _within_compositions(labelled: Sequence[tuple[int, Frame]]) -> Iterator[Outlier]:
    groups: dict[str, list[tuple[int, Frame]]] = defaultdict(list)
    for index, frame in labelled:
        groups[formula(frame.structure)].append((index, frame))
    for name, members in groups.items():
        if len(members) < FEWEST_FOR_DEVIATION:
            continue
        size = len(members[0][1].structure)
        per_atom = np.array([frame.energy for _, frame in members], dtype=np.float64) / size
        distance = per_atom - np.median(per_atom)
        deviation = float(np.median(np.abs(distance)))
        far = np.flatnonzero(np.abs(distance) > ENERGY_DEVIATIONS * deviation)
        if deviation == 0 or len(far) > LARGEST_SHARE * len(members):
            continue
        for place in far.tolist():
            index, frame = members[place]
            text = (
                f"energy {distance[place]:+.3f} eV/atom from the median of {name} "
                f"({abs(distance[place]) / deviation:.0f} median deviations)"
            )
            yield Outlier(index, "energy", f"{frame.structure.name}: {text}")


def shortest_by_pair(frames: Sequence[Frame]) -> dict[tuple[int, int], float]:
    """Shortest distance of each pair of elements, Å, of pairs closer than twice the sum of their covalent radii.

    Example:
        >>> frame = Frame(Structure([8, 1, 1], [[0, 0, 0], [0, 0, 0.97], [0, 0.96, 0]]))
        >>> {pair: round(distance, 2) for pair, distance in shortest_by_pair([frame]).items()}
        {(1, 8): 0.96}
    """
    found: dict[tuple[int, int], float] = {}
    for frame in frames:
        numbers = frame.structure.numbers
        edges = neighbour_list(frame.structure, 4 * float(covalent_radii[numbers].max()), check=False)
        lengths = edge_lengths(frame.structure.positions, frame.structure.cell, edges)
        ends = np.sort(np.stack([numbers[edges.receivers], numbers[edges.senders]], axis=1), axis=1)
        kinds, places = np.unique(ends, axis=0, return_inverse=True)
        shortest = np.full(len(kinds), np.inf)
        np.minimum.at(shortest, places.ravel(), lengths)
        for (first, second), distance in zip(kinds.tolist(), shortest.tolist(), strict=True):
            if distance < 2 * float(covalent_radii[first] + covalent_radii[second]):
                found[first, second] = min(distance, found.get((first, second), np.inf))
    return dict(sorted(found.items()))
