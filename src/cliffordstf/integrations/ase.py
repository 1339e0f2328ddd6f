"""An ASE calculator for one potential or an ensemble of them."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from ase import Atoms
from ase.calculators.calculator import Calculator as AseCalculator
from ase.calculators.calculator import PropertyNotImplementedError, all_changes
from ase.stress import full_3x3_to_voigt_6_stress

from cliffordstf.data.batch import Batch, make_batch
from cliffordstf.data.neighbours import NeighbourList
from cliffordstf.data.skin_list import SkinList
from cliffordstf.data.structure import FloatArray, Structure
from cliffordstf.engine.prediction import Prediction, check_finite
from cliffordstf.errors import ConfigError, StructureError
from cliffordstf.integrations.dispersion import D3
from cliffordstf.model.potential import Potential
from cliffordstf.model.shipped import open_model

Model = str | Path | Potential
DTYPES: dict[str, torch.dtype] = {"float64": torch.float64, "float32": torch.float32}


class Calculator(AseCalculator):
    """Energy, forces and stress for ASE, in eV, eV/Å and eV/Å³ (Voigt order xx, yy, zz, yz, xz, xy), float64.

    Several models make an ensemble: results are means over the members, and `results` also holds their sample standard
    deviations, `energy_std` (eV) and `forces_std` (eV/Å, (atoms, 3)).

    Args:
        model: A model file, the name of a shipped model, a `Potential`, or a list of these.
        dtype: Precision the models compute in; `float64` for relaxations and vibrations, `float32` is faster.
        device: A torch device, for example `cpu` or `cuda`.
        skin: Å, margin of the neighbour list; see `SkinList`.
        dispersion: Functional whose D3(BJ) dispersion is added to energy, forces and stress, for example `pbe`; for
            models trained on energies without dispersion. Needs `pip install 'cliffordstf[d3]'`.

    Attributes:
        potentials: The members, copied, in `dtype` on `device`.
        neighbours: The neighbour list, with the number of `builds` and the `seconds` they took.
        dispersion: The correction that is added, or None.

    Example:
        >>> from ase.build import molecule
        >>> atoms = molecule("CH3CH2OH")
        >>> atoms.calc = Calculator("ethanol-gfn2")
        >>> atoms.get_forces().shape
        (9, 3)
    """

    implemented_properties = ["energy", "free_energy", "forces", "stress", "energies", "extrapolation"]  # noqa: RUF012 - as ASE has it
    nolabel = True

    def __init__(
        self,
        model: Model | Sequence[Model],
        dtype: Literal["float64", "float32"] = "float64",
        device: str | torch.device = "cpu",
        skin: float = 0.5,
        dispersion: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        members = [model] if isinstance(model, str | Path | Potential) else list(model)
        if not members:
            raise ConfigError("the calculator got an empty list of models; give at least one.")
        if dtype not in DTYPES:
            raise ConfigError(f"dtype={dtype!r} is not supported by the calculator; choose 'float64' or 'float32'.")
        self.device = inference_device(device)
        self.potentials = [inference_potential(member, DTYPES[dtype], self.device) for member in members]
        self.neighbours = SkinList(max(potential.cutoff for potential in self.potentials), skin)
        self._batches: dict[float, tuple[NeighbourList, Batch]] = {}
        self.dispersion = None if dispersion is None else D3(dispersion)
        self._structure: Structure | None = None
        # ASE asks for forces first and for stress later; once stress was asked for, both come from one evaluation.
        self._stress_is_used = False

    @property
    def uncertainty(self) -> dict[str, float]:
        """Spread of the ensemble at the last structure; empty for a single model.

        `energy_std` is in eV, `max_force_std` (eV/Å) is the largest length of an atom's vector of standard deviations.
        """
        if "energy_std" not in self.results:
            return {}
        return {
            "energy_std": float(self.results["energy_std"]),
            "max_force_std": float(np.linalg.norm(self.results["forces_std"], axis=1).max()),
        }

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy",),
        system_changes: Sequence[str] = tuple(all_changes),
    ) -> None:
        """Called by ASE: evaluate the potentials at `atoms` and fill `results`."""
        structure = self._follow(self.atoms if atoms is None else atoms, system_changes)
        has_volume = structure.has_volume
        if "stress" in properties:
            if not has_volume:
                raise PropertyNotImplementedError(
                    f"{structure.name} has no three-dimensional cell, so it has no stress."
                )
            self._stress_is_used = True
        predictions = self._evaluate(structure, stress=self._stress_is_used and has_volume)
        self.results = _combine(predictions)
        if self.dispersion is not None:
            self._add_dispersion(self.dispersion, structure, per_atom="energies" in properties)
        self._check_results(structure)
        if "extrapolation" in properties:
            self.results["extrapolation"] = self._extrapolation(structure)

    def get_property(self, name: str, atoms: Atoms | None = None, allow_calculation: bool = True) -> Any:
        """A result, evaluated if need be; a mere move keeps what is known of the atoms, where ASE copies them anew."""
        if atoms is not None and allow_calculation and self._structure is not None and atoms is not self.atoms:
            changes = self.check_state(atoms)
            if changes == ["positions"] and name in self.implemented_properties:
                self.results = {}
                self.calculate(atoms, [name], changes)
        return super().get_property(name, atoms, allow_calculation)  # type: ignore[no-untyped-call]

    def check_state(self, atoms: Atoms, tol: float = 0.0) -> list[str]:  # noqa: ARG002 - as ASE has it
        """What has changed since the last calculation of all that the energy depends on, to the last bit."""
        known = self.atoms
        if known is None or len(known) != len(atoms):
            return list(all_changes)
        pairs = {
            "positions": (known.positions, atoms.positions),
            "numbers": (known.numbers, atoms.numbers),
            "cell": (known.cell.array, atoms.cell.array),
            "pbc": (known.pbc, atoms.pbc),
        }
        return [name for name, (one, other) in pairs.items() if one.tobytes() != other.tobytes()]

    def get_extrapolation(self, atoms: Atoms | None = None) -> FloatArray:
        """Distance of every atom from the training set, (atoms,): above 1 an atom is like none of it.

        Of an ensemble the largest; evaluates the networks once more, in PyTorch without a gradient. See
        `Potential.extrapolation`.

        Raises:
            PropertyNotImplementedError: The model file has no statistics of its training set.
        """
        self.get_property("energy", atoms)  # which is there already after forces
        if "extrapolation" not in self.results and self._structure is not None:
            self.results["extrapolation"] = self._extrapolation(self._structure)
        return np.asarray(self.results["extrapolation"], dtype=np.float64)

    def _extrapolation(self, structure: Structure) -> FloatArray:
        found = [p.extrapolation(self._batch(structure, p.cutoff)) for p in self.potentials]
        known = [values.numpy() for values in found if values is not None]
        if len(known) < len(found):
            raise PropertyNotImplementedError(
                "the model file has no statistics of its training set, so nothing is known of extrapolation; train it "
                "with this version."
            )
        return np.asarray(np.max(known, axis=0), dtype=np.float64)

    def _follow(self, atoms: Atoms | None, changes: Sequence[str]) -> Structure:
        """Remember the atoms as ASE expects it, and return them checked; mere moves cost next to nothing."""
        if atoms is None:
            raise ConfigError("the calculator has seen no atoms yet; give it some.")
        known = self.atoms
        is_move = set(changes) <= {"positions"} and known is not None and known is not atoms
        if is_move and self._structure is not None and known is not None and len(known) == len(atoms):
            self._structure = self._structure.moved(atoms.positions)
            known.positions = self._structure.positions
        else:
            self._structure = None  # a structure that is refused must not leave another one behind
            self.atoms = atoms.copy()
            self._structure = Structure.from_ase(atoms)
        return self._structure

    def get_hessian(self, atoms: Atoms | None = None) -> FloatArray:
        """Hessian of the energy in float64, dispersion included; of an ensemble the mean.

        Args:
            atoms: By default those of the last calculation.

        Returns:
            eV/Å², (3 · atoms, 3 · atoms), as of ASE's own calculators; see `Potential.hessian`.
        """
        atoms = self.atoms if atoms is None else atoms
        if atoms is None:
            raise ConfigError("the calculator has seen no atoms yet; call get_hessian(atoms).")
        structure = Structure.from_ase(atoms)
        found: FloatArray = np.mean([potential.hessian(structure) for potential in self.potentials], axis=0)
        if self.dispersion is not None:
            found = found + self.dispersion.hessian(structure)
        return found.reshape(3 * len(structure), 3 * len(structure))

    def _add_dispersion(self, dispersion: D3, structure: Structure, per_atom: bool) -> None:
        """Add it to the results; `energies` are kept only where they were asked for, so that they always add up."""
        found = dispersion.evaluate(structure)
        for name in ("energy", "free_energy"):
            self.results[name] += found.energy
        self.results["forces"] = self.results["forces"] + found.forces
        if "stress" in self.results and found.stress is not None:
            self.results["stress"] = self.results["stress"] + full_3x3_to_voigt_6_stress(found.stress)
        energies = self.results.pop("energies")
        if per_atom:
            self.results["energies"] = energies + dispersion.atom_energies(structure)

    def _evaluate(self, structure: Structure, stress: bool) -> list[Prediction]:
        self.neighbours.update(structure)
        batches = {potential.cutoff: self._batch(structure, potential.cutoff) for potential in self.potentials}
        return [potential(batches[potential.cutoff], stress=stress) for potential in self.potentials]

    def _batch(self, structure: Structure, cutoff: float) -> Batch:
        """The structure with its edges; with those of the last step if they are the same, which potentials notice."""
        edges = self.neighbours.within(cutoff)
        known, batch = self._batches.get(cutoff, (None, None))
        if batch is not None and known is edges:
            positions = torch.from_numpy(structure.positions).to(self.device)
            return batch.with_geometry(positions, batch.cell)
        batch = make_batch([structure], cutoff, [edges]).to(self.device)
        self._batches[cutoff] = (edges, batch)
        return batch

    def _check_results(self, structure: Structure) -> None:
        try:
            check_finite(self.results["energy"], self.results["forces"], structure.name)
        except StructureError:
            self.results = {}
            raise


def inference_device(device: str | torch.device) -> torch.device:
    """A device that can be used.

    Raises:
        ConfigError: There is no such device.
    """
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ConfigError(
            f"device {device!r} cannot be used ({reason}); choose 'cpu' or a GPU that is there."
        ) from None
    return found


def inference_potential(model: Model, dtype: torch.dtype, device: torch.device) -> Potential:
    """A copy for inference: the caller's potential keeps its precision, device and gradients."""
    potential = copy.deepcopy(model) if isinstance(model, Potential) else open_model(model)[0]
    return potential.to(device=device, dtype=dtype).eval().requires_grad_(False)


def _combine(predictions: list[Prediction]) -> dict[str, Any]:
    """Means over the members, and standard deviations where there are several."""
    if len(predictions) == 1:
        return _of_one(predictions[0])
    energies = np.array([float(prediction.energy) for prediction in predictions])
    forces = np.stack([_numpy(prediction.forces) for prediction in predictions])
    results: dict[str, Any] = {
        "energy": float(energies.mean()),
        "free_energy": float(energies.mean()),
        "energies": np.mean([_numpy(prediction.atom_energies) for prediction in predictions], axis=0),
        "forces": forces.mean(axis=0),
    }
    if predictions[0].stress is not None:
        stress = np.mean([_numpy(prediction.stress)[0] for prediction in predictions], axis=0)
        results["stress"] = np.asarray(full_3x3_to_voigt_6_stress(stress))
    results["energy_std"] = float(energies.std(ddof=1))
    results["forces_std"] = forces.std(axis=0, ddof=1)
    return results


def _of_one(prediction: Prediction) -> dict[str, Any]:
    energy = float(prediction.energy)
    results: dict[str, Any] = {
        "energy": energy,
        "free_energy": energy,
        "energies": _numpy(prediction.atom_energies),
        "forces": _numpy(prediction.forces),
    }
    if prediction.stress is not None:
        results["stress"] = np.asarray(full_3x3_to_voigt_6_stress(_numpy(prediction.stress)[0]))
    return results


def _numpy(tensor: torch.Tensor | None) -> FloatArray:
    assert tensor is not None
    found: FloatArray = tensor.detach().cpu().double().numpy()
    return found
