"""What is in a data set: sizes, elements, labels and their spread, duplicates, outliers, and the baseline."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from ase.units import GPa

from cliffordstf.data.baseline import fit_baseline
from cliffordstf.data.duplicates import find_duplicates
from cliffordstf.data.frame import Frame
from cliffordstf.data.outliers import ShortestDistance, find_outliers, finite_forces
from cliffordstf.data.readers import Source
from cliffordstf.data.structure import FloatArray, Structure, formula, symbol
from cliffordstf.errors import DataError

MEV = 1000.0
UNLABELLED = "Default"
"""Label of structures without one, where others have one."""


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
class BaselineErrors:
    """Mean absolute errors of the baseline: a constant energy per element and zero forces.

    Attributes:
        energy_mae_mev, energy_mae_mev_per_atom: None without energies.
        energy_constant: What is constant, in words.
        force_mae_mev_per_a: Mean absolute force component, meV/Å.
        stress_mae_gpa: Mean absolute stress component, GPa.
    """

    energy_mae_mev: float | None
    energy_mae_mev_per_atom: float | None
    energy_constant: str
    force_mae_mev_per_a: float | None
    stress_mae_gpa: float | None


@dataclass(frozen=True)
class DuplicateGroup:
    """Equal structures by name, and by how much their labels differ: eV and eV/Å, None where they agree."""

    structures: tuple[str, ...]
    energy_difference: float | None
    force_difference: float | None

    def __str__(self) -> str:
        differences = []
        if self.energy_difference is not None:
            differences.append(f"energies differ by {self.energy_difference * MEV:.3g} meV")
        if self.force_difference is not None:
            differences.append(f"forces by {self.force_difference * MEV:.3g} meV/Å")
        names = " = ".join(self.structures[:5]) + (" = …" if len(self.structures) > 5 else "")
        return names + (f" ({', '.join(differences)})" if differences else "")


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
    config_types: dict[str, int]
    isolated_atoms: dict[str, float]
    duplicates: tuple[DuplicateGroup, ...]
    outliers: tuple[str, ...]
    shortest_distance: ShortestDistance | None
    baseline: BaselineErrors

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
    compositions = Counter(formula(frame.structure) for frame in frames)
    outliers, shortest = find_outliers(frames)
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
        config_types=_config_types(frames),
        isolated_atoms=_isolated(frames),
        duplicates=tuple(_duplicates(frames)),
        outliers=tuple(outlier.text for outlier in outliers),
        shortest_distance=shortest,
        baseline=_baseline(frames),
    )


def _config_types(frames: list[Frame]) -> dict[str, int]:
    """Structures by label, the most frequent first; empty where none has one."""
    counts = Counter(frame.config_type for frame in frames)
    if set(counts) == {None}:
        return {}
    return {UNLABELLED if name is None else name: count for name, count in counts.most_common()}


def _isolated(frames: list[Frame]) -> dict[str, float]:
    """Energies of isolated atoms by chemical symbol, eV."""
    return {
        symbol(int(frame.structure.numbers[0])): float(frame.energy)
        for frame in frames
        if frame.energy is not None and frame.has_energy and frame.is_isolated_atom
    }


def _duplicates(frames: list[Frame]) -> list[DuplicateGroup]:
    return [
        DuplicateGroup(
            tuple(frames[index].structure.name for index in group.members),
            group.energy_difference,
            group.force_difference,
        )
        for group in find_duplicates(frames)
    ]


def _periodicity(structure: Structure) -> str:
    names = ("molecule", "periodic in one direction", "periodic in two directions", "periodic in three directions")
    return names[int(structure.pbc.sum())]


def _coverage(labels: list[FloatArray | None]) -> Coverage:
    finite = [0.0 if label is None else float(np.isfinite(label).mean()) for label in labels]
    complete, missing = sum(share == 1 for share in finite), sum(share == 0 for share in finite)
    return Coverage(complete, len(labels) - complete - missing, missing)


def _with_energy(frames: list[Frame]) -> tuple[list[Frame], FloatArray]:
    labelled = [frame for frame in frames if frame.has_energy]
    return labelled, np.array([frame.energy for frame in labelled], dtype=np.float64)


def _statistics(frames: list[Frame]) -> Statistics:
    labelled, energies = _with_energy(frames)
    per_atom = energies / np.array([len(frame.structure) for frame in labelled])
    forces = finite_forces(frames)
    norms = np.linalg.norm(forces, axis=1)
    stresses = np.array([frame.stress for frame in frames if frame.has_stress])
    return Statistics(
        energy_per_atom_mean=_or_none(per_atom, np.mean),
        energy_per_atom_std=_or_none(per_atom, np.std),
        force_norm_mean=_or_none(norms, np.mean),
        force_component_rms=_or_none(forces**2, lambda squares: np.sqrt(np.mean(squares))),
        force_norm_max=_or_none(norms, np.max),
        stress_component_mean_abs=_or_none(np.abs(stresses), np.nanmean),
        stress_component_max_abs=_or_none(np.abs(stresses), np.nanmax),
    )


def _or_none(values: FloatArray, reduce: Any) -> float | None:
    return float(reduce(values)) if values.size else None


def _baseline(frames: list[Frame]) -> BaselineErrors:
    forces = finite_forces(frames)
    stresses = np.array([frame.stress for frame in frames if frame.stress is not None and frame.has_stress])
    force_mae = _or_none(np.abs(forces) * MEV, np.mean)
    stress_mae = _or_none(np.abs(stresses) / GPa, np.nanmean)
    bonded = [frame for frame in frames if not frame.is_isolated_atom] or frames
    labelled, energies = _with_energy(bonded)
    if not labelled:
        return BaselineErrors(None, None, "no energies", force_mae, stress_mae)
    baseline = fit_baseline(labelled)
    error = np.abs(energies - baseline(labelled)) * MEV
    sizes = np.array([len(frame.structure) for frame in labelled])
    return BaselineErrors(float(error.mean()), float((error / sizes).mean()), baseline.kind, force_mae, stress_mae)
