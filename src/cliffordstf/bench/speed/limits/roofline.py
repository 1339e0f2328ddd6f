"""How much of the machine's peaks the edge operator reaches."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cliffordstf.bench.speed.limits.machine_peaks import Machine
from cliffordstf.data.batch import Batch
from cliffordstf.kernels import edge_convolution
from cliffordstf.kernels.plan import EdgePlan
from cliffordstf.kernels.tables import frame_cost
from cliffordstf.model.default import DefaultModel
from cliffordstf.model.potential import Potential


def _best(action: Any, repetitions: int) -> float:
    action()
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


@dataclass(frozen=True)
class Reach:
    """The edge operator of one layer.

    Attributes:
        gflop: Floating-point operations, 10^9.
        gigabytes: Operands read and results written once, 10^9 bytes.
        seconds: Measured, best of several.
        roofline: Seconds that the machine's peaks allow.
    """

    gflop: float
    gigabytes: float
    seconds: float
    roofline: float

    @property
    def share(self) -> float:
        """Part of the roofline that is reached."""
        return self.roofline / self.seconds


def edge_operator(potential: Potential, batch: Batch, machine: Machine) -> dict[str, dict[str, float]]:
    """Forward and gradient of the costliest convolution of a `default` model, and each part of the gradient alone."""
    model = potential.model
    assert isinstance(model, DefaultModel)
    plan: EdgePlan = model.layers[-1].convolution.plan  # type: ignore[union-attr,assignment]
    channels, functions = model.config.channels, model.config.radial_functions
    atoms, pairs = len(batch.numbers), len(batch.edges.pair_edges)
    h = torch.randn(atoms, plan.source_dims, channels)
    phi = torch.randn(pairs, functions)
    mixing = torch.randn(functions, plan.weight_rows, channels)
    directions = torch.nn.functional.normalize(torch.randn(pairs, 3), dim=1)
    inputs = [h, phi, mixing, directions]

    def convolve(features: Tensor, radial: Tensor, mixing: Tensor, directions: Tensor) -> Tensor:
        return edge_convolution(plan, features, radial, mixing, directions, batch.edges)

    gradient = torch.randn_like(convolve(*inputs))
    actions: dict[str, Callable[[], object]] = {"forward": lambda: convolve(*inputs)}
    for name, wanted in _GRADIENTS.items():
        operands = [value.clone().requires_grad_(is_wanted) for value, is_wanted in zip(inputs, wanted, strict=True)]
        result = convolve(*operands)
        asked = [value for value in operands if value.requires_grad]
        actions[name] = partial(torch.autograd.grad, result, asked, gradient, retain_graph=True)
    work = _work(plan, atoms, pairs, len(batch.senders), channels, functions)
    results = {}
    for name, action in actions.items():
        gflop, gigabytes = work[name]
        reach = Reach(gflop, gigabytes, _best(action, 9), machine.seconds(gflop, gigabytes))
        results[name] = {**{k: float(np.round(v, 6)) for k, v in asdict(reach).items()}, "share": reach.share}
    return results


_GRADIENTS = {
    "gradient": [True, True, False, True],
    "gradient, features only": [True, False, False, False],
    "gradient, radial functions only": [False, True, False, False],
    "gradient, directions only": [False, False, False, True],
}
"""Which gradients are asked for: features, radial functions, mixing, directions."""


def _work(
    plan: EdgePlan, atoms: int, pairs: int, edges: int, channels: int, functions: int
) -> dict[str, tuple[float, float]]:
    """Operations, 10^9, and operands and results, 10^9 bytes, that each cannot do without."""
    cost = frame_cost(plan)
    # Radial weights belong to pairs: both edges of a pair share them, and the gradients of the functions too.
    radial = functions * cost.numbers * pairs / edges
    turn_features, turn_results = cost.source_matrices, cost.target_matrices
    per_channel = 2.0 * edges * channels / 1e9
    reals = 4e-9
    source, target = (atoms * channels * reals * dims for dims in (plan.source_dims, plan.target_dims))
    functions_read, directions_read = pairs * functions * reals, pairs * 3 * reals
    read = functions_read + directions_read + target
    forward = turn_features + turn_results + cost.products + radial
    # Weights are made again; features and gradients are turned into the frame once for all gradients.
    whole = 2 * turn_features + turn_results + 3 * cost.products + 2 * cost.generators + 2 * radial
    both = turn_features + turn_results
    return {
        "forward": (per_channel * forward, read + source),
        "gradient": (per_channel * whole, 2 * (read + source) - target),
        "gradient, features only": (per_channel * forward, read + source),
        "gradient, radial functions only": (
            per_channel * (both + cost.products + radial),
            directions_read + source + target,
        ),
        "gradient, directions only": (
            per_channel * (both + 2 * cost.products + 2 * cost.generators + radial),
            read + source + directions_read,
        ),
    }
