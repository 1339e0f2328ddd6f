"""Values that are not there yet: operators that are applied to them are recorded instead of run.

A model whose forward pass consists of operators can be called with symbols in place of tensors; what it then did is its
schedule. Which code runs depends on the arguments alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from torch import Tensor

from cliffordstf.errors import CliffordSTFError
from cliffordstf.kernels.tables import Tables

Rows = Literal["atoms", "pairs"]
Number = int | float | str


class ScheduleError(CliffordSTFError):
    """Error raised for a model that does something else than apply operators of this package."""


@dataclass(frozen=True)
class Step:
    """One operator of a schedule.

    Attributes:
        kind: Name of the operator.
        inputs, outputs: Places of the values that it reads and makes.
        weights: What it multiplies by, parameters of the model.
        numbers: Constants by name.
        tables: Indices and coefficients by name.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    weights: tuple[Tensor, ...]
    numbers: Mapping[str, Number]
    tables: Tables


@dataclass(frozen=True)
class ValueShape:
    """Shape of a value: (rows, dims, channels), or (rows, dims) where `channels` is 0.

    Attributes:
        over: What the rows belong to.
        dims: Components.
        channels: Channels of each component; 0 for plain numbers.
    """

    over: Rows
    dims: int
    channels: int = 0


@dataclass
class Recording:
    """Operators in the order in which they were applied, and the shapes of the values; value 0 is given."""

    values: list[ValueShape] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def symbol(self, shape: ValueShape) -> "Symbol":
        """A new value."""
        self.values.append(shape)
        return Symbol(self, len(self.values) - 1)

    def apply(
        self,
        kind: str,
        inputs: Sequence["Symbol"],
        shapes: Sequence[ValueShape],
        weights: Sequence[Tensor] = (),
        numbers: Mapping[str, Number] | None = None,
        tables: Tables | None = None,
    ) -> "list[Symbol]":
        """Record an operator; returns its results."""
        found = [self.symbol(shape) for shape in shapes]
        places = tuple(value.place for value in inputs)
        self.steps.append(
            Step(kind, places, tuple(value.place for value in found), tuple(weights), numbers or {}, tables or {})
        )
        return found


class Symbol:
    """A value of a recording; it stands where layers have a tensor, and only operators can be applied to it."""

    def __init__(self, recording: Recording, place: int) -> None:
        self.recording, self.place = recording, place

    @property
    def spec(self) -> ValueShape:
        """What the value looks like."""
        return self.recording.values[self.place]

    @property
    def shape(self) -> tuple[int, ...]:
        """As of the tensor; how many rows there are is not known, -1."""
        spec = self.spec
        return (-1, spec.dims, spec.channels) if spec.channels else (-1, spec.dims)

    def __getattr__(self, name: str) -> NoReturn:
        raise ScheduleError(
            f"a layer uses '.{name}' of a feature, which only autograd can follow; build it from the operators of "
            "cliffordstf.kernels, or choose engine='autograd'."
        )
