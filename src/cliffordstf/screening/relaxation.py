"""Minima of the energy near many structures."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from cliffordstf.data.ase_structures import without_labels
from cliffordstf.data.frame import Frame
from cliffordstf.data.structure import Structure
from cliffordstf.integrations.ase import Calculator
from cliffordstf.model.ensemble import Ensemble
from cliffordstf.model.potential import Potential
from cliffordstf.screening.model_files import model_digests
from cliffordstf.screening.prediction import RESULT_COLUMNS, check_elements, opened, row, with_results
from cliffordstf.screening.task import Processed
from cliffordstf.simulate.guards import SimulationError
from cliffordstf.simulate.output import frozen
from cliffordstf.simulate.relax import RelaxSettings, relax


@dataclass(frozen=True)
class RelaxTask:
    """Relax every structure. One that leaves the region of finite numbers is kept as it was, with the reason.

    Attributes:
        models: Files, run folders or names of shipped models; several make an ensemble.
        settings: Of each relaxation, without a trajectory.
        d3: Functional whose dispersion is added.
        dtype: Precision of the model.
        device: For example cpu or cuda.
    """

    models: tuple[str, ...]
    settings: RelaxSettings
    d3: str | None = None
    dtype: Literal["float64", "float32"] = "float64"
    device: str = "cpu"

    @property
    def columns(self) -> Sequence[str]:
        """Of the rows."""
        first = ("structure", "formula", "atoms", "converged", "steps", "max_displacement_a")
        return (*first, *RESULT_COLUMNS, "volume_a3", "pressure_gpa", "failed")

    def describe(self) -> dict[str, Any]:
        """Everything that results depend on."""
        return {"task": "relax", **asdict(self), "models": model_digests(self.models)}

    def __call__(self, frames: Sequence[Frame]) -> Iterator[Processed]:
        """Relaxed structures of a shard."""
        potential = opened(self.models, self.dtype, self.device)
        for frame in frames:
            check_elements(potential, frame.structure)
        # One for each shard: a neighbour list may be left over from the structure before, and with it its rounding.
        calculator = Calculator(_members(potential), dtype=self.dtype, device=self.device, dispersion=self.d3)
        for frame in frames:
            yield self._relaxed(frame, calculator)

    def _relaxed(self, frame: Frame, calculator: Calculator) -> Processed:
        assert frame.atoms is not None
        atoms = frame.atoms.copy()
        try:
            result = relax(atoms, calculator, self.settings)
        except SimulationError as error:
            kept = without_labels(frame.atoms)
            kept.info["converged"] = False
            failed = {"structure": frame.structure.name, "converged": False, "failed": str(error)}
            return Processed(replace(frame, energy=None, forces=None, stress=None), kept, failed)
        end = frozen(atoms, converged=result.converged)
        results = {**end.calc.results, **_spread(calculator)}
        structure = Structure.from_ase(atoms)
        moved = replace(frame, structure=replace(structure, name=frame.structure.name))
        numbers = {
            "converged": result.converged,
            "steps": result.steps,
            "max_displacement_a": result.max_displacement,
            "pressure_gpa": result.pressure,
            "volume_a3": float(atoms.get_volume()) if structure.pbc.all() else None,
        }
        return Processed(with_results(moved, results), end, {**row(moved, results), **numbers})


def _members(potential: Potential | Ensemble) -> list[Any]:
    return list(potential.members) if isinstance(potential, Ensemble) else [potential]


def _spread(calculator: Calculator) -> dict[str, Any]:
    return {name: calculator.results[name] for name in ("energy_std", "forces_std") if name in calculator.results}
