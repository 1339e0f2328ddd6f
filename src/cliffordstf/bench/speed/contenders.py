"""What takes part in a speed benchmark: our models, the literal transcription of the paper, installed peers."""

import importlib.util
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import cliffordstf
from cliffordstf import zoo
from cliffordstf.bench.literature.paper_values import paper_models
from cliffordstf.data.batch import Batch
from cliffordstf.data.structure import Structure
from cliffordstf.model.build import build
from cliffordstf.model.family import available, family_names
from cliffordstf.model.output import ModelOutput
from cliffordstf.model.potential import Potential

LITERAL = "literal paper/full"

OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "default lmax 1": ("default", {"lmax": 1, "channels": 176}),
    "default lmax 2": ("default", {"lmax": 2, "channels": 128}),
    "default lmax 3": ("default", {"lmax": 3, "channels": 96}),
    "default lmax 4": ("default", {"lmax": 4, "channels": 72}),
    "paper/full": ("paper/full", {}),
    "paper/clifford": ("paper/clifford", {}),
}
"""About 10^6 parameters each for 79 elements (paper/clifford has 0.75·10^6 as published)."""

PEERS: tuple[str, ...] = tuple(name for name in zoo.names() if name in {*paper_models("wallclock"), "tensornet"})
"""Those of the paper's own table of times, which have about 10^6 parameters, and TensorNet."""

PEER_OPTIONS: dict[str, dict[str, Any]] = {
    "mace-l1": {"channels": 62},
    "mace-l2": {"channels": 49},
    "mace-l3": {"channels": 28},
}
"""Widths of the paper's settings, which give about 10^6 parameters for many elements; the others have them anyway."""

ON_OUR_KERNELS = ("ictp-l2",)
"""Peers that are written here, on the compiled kernels, of which one is also timed as its authors' language runs."""


@dataclass(frozen=True)
class Contender:
    """A potential that can be timed.

    Attributes:
        name: As printed.
        potential: Ours, or another behind the same interface.
    """

    name: str
    potential: Potential

    @property
    def parameters(self) -> int:
        """Trainable parameters."""
        return sum(p.numel() for p in self.potential.parameters() if p.requires_grad)

    def inference(self, batch: Batch) -> Callable[[], object]:
        """Energy and forces."""

        def predict() -> object:
            self._set_mode(training=False)
            return self.potential(batch)

        return predict

    def training(self, batch: Batch) -> Callable[[], object]:
        """Forward, loss on energy and forces, backward, Adam."""
        weights = [p for p in self.potential.parameters() if p.requires_grad]
        optimizer = torch.optim.Adam(weights, lr=1e-6, fused=True)

        def step() -> None:
            self._set_mode(training=True)
            optimizer.zero_grad(set_to_none=True)
            prediction = self.potential(batch, train=True)
            assert prediction.forces is not None
            loss = prediction.energy.square().mean() + prediction.forces.square().mean()
            loss.backward(inputs=weights)
            optimizer.step()

        return step

    def molecule(self, structure: Structure) -> Callable[[], object]:
        """Energy and forces of one molecule with a neighbour list at hand, as in a step of dynamics."""
        return self.inference(self.potential.batch(structure))

    def _set_mode(self, *, training: bool) -> None:
        """Dropout and the like belong to training; costs nothing where the mode is right already."""
        if self.potential.training != training:
            self.potential.train(training)


class _LiteralModel(torch.nn.Module):
    """Evaluates a `PaperModel` edge by edge, by the paper's formulas."""

    def __init__(self, model: torch.nn.Module, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.model = model
        self._forward = forward

    def forward(self, batch: Batch, species: torch.Tensor) -> ModelOutput:
        return ModelOutput(*self._forward(self.model, batch, species))


def literal() -> Contender | None:
    """The transcription kept with the tests, or None where the tests are not (an installed wheel)."""
    root = Path(cliffordstf.__file__).parents[2]
    path = root / "tests" / "literal.py"
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location("cliffordstf_tests_literal", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    ours = build("paper/full", elements=ELEMENTS, seed=0)
    model = _LiteralModel(ours.model, module.literal_forward)
    return Contender(LITERAL, Potential(model, ours.elements, ours.cutoff, ours.force_mode, ours.reference))


ELEMENTS = tuple(range(1, 80))
"""Weights that depend on the element count as they would in a general-purpose potential: hydrogen to gold."""


def ours(names: list[str] | None = None) -> list[Contender]:
    """Our models, all or some."""
    return [
        Contender(name, build(preset, elements=ELEMENTS, seed=0, average_neighbours=15.0, **options))
        if preset == "default"
        else Contender(name, build(preset, elements=ELEMENTS, seed=0, **options))
        for name, (preset, options) in OURS.items()
        if names is None or name in names
    ]


def _peer(name: str) -> Potential:
    options = PEER_OPTIONS.get(name, {})
    return zoo.build(name, ELEMENTS, cutoff=5.0, average_neighbours=15.0, seed=0, **options)


def peers() -> tuple[list[Contender], dict[str, str]]:
    """Peers that are installed, and why the others are not here."""
    found, missing = [], {}
    for name in PEERS:
        reason = zoo.available(name)
        if reason is None:
            found.append(Contender(name, _peer(name)))
            if name in ON_OUR_KERNELS:
                found.append(Contender(f"{name}-plain-pytorch", _peer(name).use("reference")))
        else:
            missing[name] = reason
    return found, missing


def chosen(names: Iterable[str]) -> tuple[list[Contender], dict[str, str]]:
    """Presets by name that can be built here, in this order, and why the others cannot.

    Peers of `peers` are the same contenders as there; all others have the settings of their preset.
    """
    found, missing = [], {}
    for name in dict.fromkeys(names):
        reason = available(name) if name in family_names() else None
        if reason is None:
            found.append(Contender(name, _peer(name) if name in PEERS else build(name, elements=ELEMENTS, seed=0)))
        else:
            missing[name] = reason
    return found, missing
