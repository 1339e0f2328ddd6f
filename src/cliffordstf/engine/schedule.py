"""The schedule of a model: the operators that it applies, as data that leaves Python."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from torch import Tensor, nn

from cliffordstf.engine.prediction import Wrapped
from cliffordstf.kernels import Recording, ScheduleError, Step, Symbol, ValueShape

FORMAT, VERSION = "cliffordstf-native", "1"


class Schedulable(Protocol):
    """A model whose energies are made by operators and nothing else."""

    def energies(self, vectors: Any, species: Any, ends: Any, edges: Any) -> list[Any]:
        """Values that add up to the energies of the atoms; see `cliffordstf.model.default.DefaultModel`."""
        ...


@dataclass(frozen=True)
class Schedule:
    """Operators in their order.

    Attributes:
        values: Shapes of all values; value 0 is the vectors of the pairs.
        steps: The operators.
        energies: Values that add up to the energies of the atoms.
        weights: Every weight by name, as the model holds it.
    """

    values: tuple[ValueShape, ...]
    steps: tuple[Step, ...]
    energies: tuple[int, ...]
    weights: dict[str, Tensor]

    def names(self, step: Step) -> list[str]:
        """Names of the weights of an operator."""
        known = {id(tensor): name for name, tensor in self.weights.items()}
        return [known[id(tensor)] for tensor in step.weights]


@dataclass(frozen=True)
class Reference:
    """What becomes of the energies of the network.

    Attributes:
        elements: Atomic numbers in the order of the species index.
        cutoff: Å.
        energies: Of isolated atoms, eV, (elements,).
        scale, constant: eV; energy = scale · network + isolated atoms, and the constant for every structure.
        pooling: `sum` or `mean` over the atoms of a structure.
        repulsion: Outer distances of the repulsion, Å, (elements, elements), or None without one.
    """

    elements: Sequence[int]
    cutoff: float
    energies: NDArray[np.float64]
    scale: float
    constant: float
    pooling: str
    repulsion: NDArray[np.float64] | None


def why_not_exported(potential: Wrapped) -> str | None:
    """Reason why a potential has no schedule, None if it has one."""
    if potential.force_mode == "direct":
        return "its forces come from a head of their own"
    if not hasattr(potential.model, "energies"):
        return f"{type(potential.model).__name__} has no schedule"
    try:
        make_schedule(potential.model)
    except ScheduleError as error:
        return str(error).split(";")[0].rstrip(".")
    return None


def make_schedule(model: nn.Module) -> Schedule:
    """Call the model with symbols and write down what it applies.

    Raises:
        ScheduleError: It does something else than apply operators to features and its own parameters.
    """
    recording = Recording()
    vectors = recording.symbol(ValueShape("pairs", 3))
    found = cast("Schedulable", model).energies(vectors, Symbol(recording, -1), None, None)
    weights: dict[str, Tensor] = dict(model.named_parameters())
    known = {id(tensor) for tensor in weights.values()}
    for number, step in enumerate(recording.steps):
        for index, tensor in enumerate(step.weights):
            if id(tensor) in known:
                continue
            if tensor.numel():
                raise ScheduleError(
                    f"operator {number} ({step.kind}) multiplies by a tensor that is no parameter of the model, which "
                    "only autograd can follow; choose engine='autograd'."
                )
            weights[f"none.{number}.{index}"] = tensor
            known.add(id(tensor))
    used = {id(tensor) for step in recording.steps for tensor in step.weights}
    weights = {name: tensor for name, tensor in weights.items() if id(tensor) in used}
    energies = tuple(cast("Symbol", value).place for value in found)
    return Schedule(tuple(recording.values), tuple(recording.steps), energies, weights)


def to_bytes(schedule: Schedule, reference: Reference, notes: dict[str, str] | None = None) -> bytes:
    """The schedule as a safetensors file: a header in JSON, tables, weights. Opening it runs no code."""
    arrays: dict[str, NDArray[Any]] = {"reference": np.asarray(reference.energies, dtype=np.float64)}
    if reference.repulsion is not None:
        arrays["repulsion.outer"] = np.ascontiguousarray(reference.repulsion, dtype=np.float64)
    for name, tensor in schedule.weights.items():
        arrays[f"weights.{name}"] = np.ascontiguousarray(tensor.detach().cpu().numpy())
    operators = []
    for number, step in enumerate(schedule.steps):
        for name, table in step.tables.items():
            arrays[f"operators.{number}.{name}"] = np.ascontiguousarray(table)
        operators.append(
            {
                "kind": step.kind,
                "inputs": step.inputs,
                "outputs": step.outputs,
                "weights": schedule.names(step),
                **step.numbers,
            }
        )
    model = {
        "elements": list(reference.elements),
        "cutoff": reference.cutoff,
        "scale": reference.scale,
        "constant": reference.constant,
        "pooling": reference.pooling,
        "values": [{"over": v.over, "dims": v.dims, "channels": v.channels} for v in schedule.values],
        "operators": operators,
        "energies": schedule.energies,
    }
    metadata = {"format": FORMAT, "version": VERSION, "model": json.dumps(model), **(notes or {})}
    return safetensors.numpy.save(arrays, metadata)
