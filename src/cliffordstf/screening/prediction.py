"""Energies, forces and stress of structures."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.stress import full_3x3_to_voigt_6_stress, voigt_6_to_full_3x3_stress

from cliffordstf.data.ase_structures import without_labels
from cliffordstf.data.batch import make_batch
from cliffordstf.data.frame import Frame
from cliffordstf.data.structure import Structure, formula, symbol
from cliffordstf.engine.prediction import Prediction, check_finite
from cliffordstf.errors import ConfigError, UnknownElementError
from cliffordstf.integrations.ase import DTYPES, inference_device
from cliffordstf.integrations.dispersion import D3
from cliffordstf.model.ensemble import Ensemble
from cliffordstf.model.potential import Potential
from cliffordstf.model.shipped import open_ensemble
from cliffordstf.screening.model_files import model_digests
from cliffordstf.screening.task import Processed

RESULT_COLUMNS = ("energy_ev", "energy_ev_per_atom", "max_force_ev_per_a", "energy_std_ev", "max_force_std_ev_per_a")


@dataclass(frozen=True)
class PredictTask:
    """Evaluate every structure.

    Attributes:
        models: Files, run folders or names of shipped models; several make an ensemble.
        prefix: Of the names of results, which then stand beside everything that was there; None replaces labels.
        d3: Functional whose dispersion is added.
        atoms_per_batch: Structures evaluated at once have up to this many atoms.
        dtype: Precision of the model.
        device: For example cpu or cuda.
        extrapolation: Add the distance of every atom from the training set.
    """

    models: tuple[str, ...]
    prefix: str | None = None
    d3: str | None = None
    atoms_per_batch: int = 512
    dtype: Literal["float64", "float32"] = "float64"
    device: str = "cpu"
    extrapolation: bool = False

    @property
    def columns(self) -> Sequence[str]:
        """Of the rows."""
        return ("structure", "formula", "atoms", *RESULT_COLUMNS, *(["extrapolation"] if self.extrapolation else []))

    def describe(self) -> dict[str, Any]:
        """Everything that results depend on."""
        return {"task": "predict", **asdict(self), "models": model_digests(self.models)}

    def __call__(self, frames: Sequence[Frame]) -> Iterator[Processed]:
        """Results of the structures of a shard."""
        potential = opened(self.models, self.dtype, self.device)
        dispersion = None if self.d3 is None else D3(self.d3)
        for frame in frames:  # before anything is computed
            check_elements(potential, frame.structure)
        for part in batches([frame.structure for frame in frames], self.atoms_per_batch):
            chosen = frames[part]
            for frame, results in zip(
                chosen, evaluated(potential, chosen, dispersion, self.extrapolation), strict=True
            ):
                yield Processed(with_results(frame, results), self._atoms(frame, results), row(frame, results))

    def _atoms(self, frame: Frame, results: dict[str, Any]) -> Atoms:
        assert frame.atoms is not None
        return _replaced(frame.atoms, results) if self.prefix is None else _beside(frame.atoms, results, self.prefix)


@lru_cache(maxsize=1)
def opened(models: tuple[str, ...], dtype: str, device: str) -> Potential | Ensemble:
    """The potential, opened once in a process that does many shards."""
    potential, _ = open_ensemble(models)
    return potential.to(device=inference_device(device), dtype=DTYPES[dtype]).eval().requires_grad_(False)


def check_elements(potential: Potential | Ensemble, structure: Structure) -> None:
    """Refuse a structure with elements that the potential does not know.

    Raises:
        UnknownElementError: Names the structure.
    """
    unknown = sorted(set(structure.numbers.tolist()) - set(potential.elements))
    if unknown:
        raise UnknownElementError(
            f"{structure.name} holds {', '.join(map(symbol, unknown))}, which this potential was not built for; use or "
            "train a potential with these elements."
        )


def batches(structures: Sequence[Structure], most_atoms: int) -> Iterator[slice]:
    """Slices of neighbours in the file with at most `most_atoms` atoms each; a larger structure stands alone."""
    start, atoms = 0, 0
    for index, structure in enumerate(structures):
        if index > start and atoms + len(structure) > most_atoms:
            yield slice(start, index)
            start, atoms = index, 0
        atoms += len(structure)
    yield slice(start, len(structures))


def evaluated(
    potential: Potential | Ensemble,
    frames: Sequence[Frame],
    dispersion: D3 | None = None,
    extrapolation: bool = False,
) -> list[dict[str, Any]]:
    """Results of a potential for structures in one batch, by their names in ASE; `stress` only where there is a cell.

    Args:
        potential: One, or several as an ensemble, whose spread is `energy_std` and `forces_std`.
        frames: Structures.
        dispersion: Is added.
        extrapolation: Add the distance of every atom from the training set.

    Raises:
        ConfigError: That is not known of the model.
        StructureError: A result is not finite.
    """
    batch = make_batch([frame.structure for frame in frames], potential.cutoff)
    batch = batch.to(potential.species_of_number.device)
    prediction = potential(batch, stress=bool((batch.volumes() > 0).any()))
    distances = potential.extrapolation(batch) if extrapolation else None
    if extrapolation and distances is None:
        raise ConfigError(
            "the model file has no statistics of its training set, so --extrapolation has nothing to go by; train it "
            "with this version."
        )
    ends = np.cumsum([len(frame.structure) for frame in frames])
    found = []
    for index, frame in enumerate(frames):
        atoms = slice(int(ends[index]) - len(frame.structure), int(ends[index]))
        results = _results(prediction, index, atoms)
        check_finite(results["energy"], results["forces"], frame.structure.name)
        if distances is not None:
            results["extrapolation"] = distances[atoms].cpu().numpy()
        if dispersion is not None:
            _add(results, dispersion, frame.structure)
        found.append(results)
    return found


def _results(prediction: Prediction, index: int, atoms: slice) -> dict[str, Any]:
    assert prediction.forces is not None
    results: dict[str, Any] = {
        "energy": float(prediction.energy[index]),
        "forces": prediction.forces[atoms].cpu().numpy(),
    }
    if prediction.stress is not None and bool(prediction.stress[index].isfinite().all()):
        results["stress"] = full_3x3_to_voigt_6_stress(prediction.stress[index].cpu().numpy())
    if prediction.energy_std is not None and prediction.forces_std is not None:
        results["energy_std"] = float(prediction.energy_std[index])
        results["forces_std"] = prediction.forces_std[atoms].cpu().numpy()
    return results


def _add(results: dict[str, Any], dispersion: D3, structure: Structure) -> None:
    found = dispersion.evaluate(structure)
    results["energy"] += found.energy
    results["forces"] = results["forces"] + found.forces
    if "stress" in results and found.stress is not None:
        results["stress"] = results["stress"] + full_3x3_to_voigt_6_stress(found.stress)


def with_results(frame: Frame, results: dict[str, Any]) -> Frame:
    """A frame whose labels are results."""
    stress = results.get("stress")
    return replace(
        frame,
        energy=float(results["energy"]),
        forces=np.asarray(results["forces"], dtype=np.float64),
        stress=None if stress is None else np.asarray(voigt_6_to_full_3x3_stress(stress)),
    )


def row(frame: Frame, results: dict[str, Any]) -> dict[str, Any]:
    """Numbers of a structure for a table."""
    found: dict[str, Any] = {
        "structure": frame.structure.name,
        "formula": formula(frame.structure),
        "atoms": len(frame.structure),
        "energy_ev": float(results["energy"]),
        "energy_ev_per_atom": float(results["energy"]) / len(frame.structure),
        "max_force_ev_per_a": float(np.linalg.norm(results["forces"], axis=1).max()),
    }
    if "energy_std" in results:
        found["energy_std_ev"] = float(results["energy_std"])
        found["max_force_std_ev_per_a"] = float(np.linalg.norm(results["forces_std"], axis=1).max())
    if "extrapolation" in results:
        found["extrapolation"] = float(results["extrapolation"].max())
    return found


def _replaced(atoms: Atoms, results: dict[str, Any]) -> Atoms:
    clean = without_labels(atoms)
    spread = {name: value for name, value in results.items() if name.endswith(("_std", "extrapolation"))}
    clean.calc = SinglePointCalculator(clean, **{name: value for name, value in results.items() if name not in spread})
    return _with(clean, spread, "")


def _beside(atoms: Atoms, results: dict[str, Any], prefix: str) -> Atoms:
    kept = atoms.copy()
    kept.calc = atoms.calc
    return _with(kept, results, prefix)


def _with(atoms: Atoms, values: dict[str, Any], prefix: str) -> Atoms:
    for name, value in values.items():
        (atoms.arrays if name.startswith(("forces", "extrapolation")) else atoms.info)[prefix + name] = value
    return atoms
