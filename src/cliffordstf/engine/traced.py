"""Potentials for torch.compile and torch.export: energy, forces and stress as one traced graph.

Forces are a gradient, and the compilers cannot look into `autograd.grad`. So energy and gradient are traced together
into a graph of plain operators, with symbolic sizes, in which the compiled kernels stay opaque calls. The graph is then
compiled like any other module, and one compilation serves every number of atoms and edges.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.fx.experimental import _config as sizes
from torch.fx.experimental.proxy_tensor import make_fx

from cliffordstf.data.batch import Batch
from cliffordstf.engine.autograd import AutogradEngine
from cliffordstf.engine.prediction import Prediction, Wanted, Wrapped
from cliffordstf.graph import EdgeIndex

_BATCH = ("numbers", "positions", "cell", "pbc", "structure_of_atom", "shifts")


def batch_tensors(batch: Batch) -> list[Tensor]:
    """The tensors of a batch in the order that `GraphFunction` takes them."""
    return [*(getattr(batch, name) for name in _BATCH), *batch.edges]


class GraphFunction(nn.Module):
    """A potential as a function of tensors only: what is traced.

    Args:
        potential: The potential whose weights are used.
        example: A batch that shows what does not change: number of structures, periodicity, names.
        stress, train: As in `Potential.forward`.
    """

    def __init__(self, potential: nn.Module, example: Batch, stress: bool, train: bool) -> None:
        super().__init__()
        self.potential = potential
        self._example, self._wanted = example, Wanted(stress=stress, train=train)

    def forward(self, *tensors: Tensor) -> list[Tensor]:
        """Energy, atomic energies, forces and, if asked for, stress."""
        values: dict[str, Any] = dict(zip(_BATCH, tensors, strict=False))
        batch = replace(self._example, **values, edges=EdgeIndex(*tensors[len(_BATCH) :]))
        prediction = AutogradEngine().run(cast("Wrapped", self.potential), batch, self._wanted)
        found = (prediction.energy, prediction.atom_energies, prediction.forces, prediction.stress)
        return [result for result in found if result is not None]


def trace(potential: nn.Module, example: Batch, stress: bool = False, train: bool = False) -> torch.fx.GraphModule:
    """Energy and its gradient as one graph with symbolic sizes, a function of (weights and buffers, batch tensors)."""
    function = GraphFunction(potential, example, stress, train)

    def pure(state: Mapping[str, Tensor], tensors: list[Tensor]) -> list[Tensor]:
        results: list[Tensor] = torch.func.functional_call(function, dict(state), tuple(tensors))
        return results

    # Constant tables are made at the first call and kept; made while tracing they would be kept without values.
    function(*batch_tensors(example))
    tracer: Callable[..., Any] = make_fx(pure, tracing_mode="symbolic", _allow_non_fake_inputs=True)
    # Without this, sizes that happen to be equal in the example are taken to be equal for ever.
    with sizes.patch(use_duck_shape=False):  # type: ignore[attr-defined]
        graph: torch.fx.GraphModule = tracer(program_state(potential), batch_tensors(example))
    _drop_detaches(graph)
    return graph


def _drop_detaches(graph: torch.fx.GraphModule) -> None:
    """Reconnect what autograd had saved: a saved output is traced as detached, which would cut its gradient off.

    The detaches that models ask for themselves concern positions only, or cancel, like the shift of a softmax.
    """
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and node.target is torch.ops.aten.detach.default:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    graph.recompile()


def program_state(potential: nn.Module) -> dict[str, Tensor]:
    """Weights and buffers, as traced and exported programs take them."""
    tensors = {**dict(potential.named_parameters()), **dict(potential.named_buffers())}
    return {f"potential.{name}": tensor for name, tensor in tensors.items()}


def export(potential: nn.Module, example: Batch, stress: bool = False) -> torch.export.ExportedProgram:
    """Energy, atomic energies, forces and, if asked for, stress as a program for `torch.export.save` or AOTInductor.

    It takes (`program_state(potential)`, `batch_tensors(batch)`) for batches of any number of atoms and edges that are
    like the example otherwise: of several structures if it is, periodic if it is.
    """
    graph = trace(potential, example, stress)
    state, tensors = program_state(potential), batch_tensors(example)
    shapes = (dict.fromkeys(state), [{0: torch.export.Dim.AUTO} for _ in tensors])
    with torch.no_grad(), sizes.patch(use_duck_shape=False):  # type: ignore[attr-defined]
        return torch.export.export(graph, (state, tensors), dynamic_shapes=shapes, strict=False)


class TracedEngine:
    """Runs a potential through torch.compile.

    Compilation happens at the first call of each kind (periodic or not, one structure or several, with or without
    stress, training or not) and takes about a minute; batches of any size then use the same code. Structures without
    any edge, and direct forces in training, take the ordinary path.

    Args:
        options: Passed to `torch.compile`.
    """

    name = "traced"

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._compiled: dict[tuple[bool, bool, bool, bool], Callable[..., list[Tensor]]] = {}

    def __deepcopy__(self, memo: object) -> "TracedEngine":
        return TracedEngine(**self._options)

    def run(self, potential: Wrapped, batch: Batch, wanted: Wanted) -> Prediction:
        """Evaluate a batch."""
        if not wanted.forces or batch.senders.numel() == 0:
            return AutogradEngine().run(potential, batch, wanted)
        module = cast("nn.Module", potential)
        # One structure is a kind of its own: a size of one is taken for a constant by tracing.
        kind = (batch.periodic, batch.size == 1, wanted.stress, wanted.train)
        if kind not in self._compiled:
            graph = trace(module, batch, wanted.stress, wanted.train)
            self._compiled[kind] = torch.compile(graph, dynamic=True, **self._options)
        # The gradient is part of the graph: outside of training nothing is left to differentiate.
        with torch.set_grad_enabled(wanted.train), sizes.patch(use_duck_shape=False):  # type: ignore[attr-defined]
            energy, atom_energies, found, *rest = self._compiled[kind](program_state(module), batch_tensors(batch))
        return Prediction(energy, atom_energies, found, rest[0] if rest else None)
