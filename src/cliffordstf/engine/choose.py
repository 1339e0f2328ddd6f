"""Which engine runs a potential, and why."""

import os
from collections.abc import Callable
from typing import Literal, Protocol, get_args

from torch import nn

from cliffordstf.data.batch import Batch
from cliffordstf.engine.autograd import AutogradEngine
from cliffordstf.engine.native import NativeEngine
from cliffordstf.engine.prediction import Prediction, Wanted, Wrapped
from cliffordstf.engine.schedule import why_not_exported
from cliffordstf.engine.traced import TracedEngine
from cliffordstf.errors import ConfigError
from cliffordstf.kernels import use_plain_pytorch
from cliffordstf.kernels.native.runtime import PRECISIONS, is_available
from cliffordstf.options.text import did_you_mean

EngineName = Literal["auto", "native", "autograd", "reference", "traced"]
VARIABLE = "CLIFFORDSTF_ENGINE"
"""Environment variable that overrides what potentials are built with."""


class Engine(Protocol):
    """Something that runs potentials."""

    name: str

    def run(self, potential: Wrapped, batch: Batch, wanted: Wanted) -> Prediction:
        """Evaluate a batch."""
        ...


class Chosen:
    """An engine and the reason for it; prints as both.

    Attributes:
        engine: What runs.
        name: Its name.
        reason: Why it was chosen.
    """

    def __init__(self, engine: Engine, name: str, reason: str) -> None:
        self.engine, self.name, self.reason = engine, name, reason

    def __repr__(self) -> str:
        return f"{self.name} ({self.reason})"


def requested_engine(name: str) -> EngineName:
    """The name of an engine, or what the environment has in its place.

    Raises:
        ConfigError: There is no such engine.
    """
    override = os.environ.get(VARIABLE, "")
    found = override or name
    known = get_args(EngineName)
    if found not in known:
        where = f"the environment variable {VARIABLE} is '{found}'" if override else f"engine is '{found}'"
        raise ConfigError(f"{where}{did_you_mean(found, known)}; choose one of {', '.join(known)}.")
    return found  # type: ignore[return-value]


def choose(potential: Wrapped, name: EngineName) -> Chosen:
    """Pick an engine.

    Args:
        potential: What it will run.
        name: `auto` for the fastest one that can run it.

    Raises:
        ConfigError: The engine cannot run this potential.
    """
    if name in ("auto", "native"):
        problem = why_not_native(potential)
        if problem is None:
            return Chosen(NativeEngine(), "native", f"schedule in C++, {_precision(potential.model)}")
        if name == "native":
            raise ConfigError(f"engine='native' cannot run this potential: {problem}; choose engine='auto'.")
        return Chosen(AutogradEngine(), "autograd", problem)
    made: dict[str, Callable[[], Engine]] = {
        "autograd": AutogradEngine,
        "reference": AutogradEngine,
        "traced": TracedEngine,
    }
    if name == "reference":
        use_plain_pytorch(potential.model)
    return Chosen(made[name](), name, "as requested")


def why_not_native(potential: Wrapped) -> str | None:
    """Reason why the C++ runtime cannot run a potential here, None if it can."""
    found = why_not_exported(potential)
    if found is not None:
        return found
    parameter = next(potential.model.parameters())
    problems = {
        f"it is on {parameter.device}": parameter.device.type != "cpu",
        f"its weights are {_precision(potential.model)}": parameter.dtype not in PRECISIONS,
    }
    found = next((problem for problem, holds in problems.items() if holds), None)
    if found is None and not is_available(parameter.dtype):
        return "the compiled kernels are not available"
    return found


def _precision(model: nn.Module) -> str:
    return str(next(model.parameters()).dtype).removeprefix("torch.")
