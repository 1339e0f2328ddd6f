"""How fast this machine can be, and how much of it the edge operator reaches."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from cliffordstf.data.batch import Batch
from cliffordstf.kernels import edge_convolution
from cliffordstf.kernels.plan import EdgePlan
from cliffordstf.model.default import DefaultModel
from cliffordstf.model.potential import Potential


@dataclass(frozen=True)
class Machine:
    """Measured peaks.

    Attributes:
        gflops: Of a large float32 matrix product, 10^9 operations/s.
        bandwidth: Of a large copy, 10^9 bytes/s read and written.
    """

    gflops: float
    bandwidth: float


def measure_machine() -> Machine:
    """Peaks of a matrix product and of a copy, best of several."""
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    product = _best(lambda: a @ b, 10)
    x, y = torch.randn(20_000_000), torch.empty(20_000_000)
    copy = _best(lambda: y.copy_(x), 5)
    return Machine(2 * 1024**3 / product / 1e9, 8 * x.numel() / copy / 1e9)


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
    """Forward and gradient of the costliest convolution of a `default` model."""
    model = potential.model
    assert isinstance(model, DefaultModel)
    plan: EdgePlan = model.layers[-1].convolution.plan  # type: ignore[union-attr,assignment]
    channels, functions = model.config.channels, model.config.radial_functions
    atoms, pairs, edges = len(batch.numbers), len(batch.edges.pair_edges), len(batch.senders)
    h = torch.randn(atoms, plan.source_dims, channels, requires_grad=True)
    phi = torch.randn(pairs, functions, requires_grad=True)
    mixing = torch.randn(functions, plan.weight_rows, channels)
    directions = torch.randn(pairs, plan.edge_dims, requires_grad=True)
    # Couplings with a scalar direction multiply component by component; the others by a small matrix.
    matrix = sum(p.coupling.a.dims * (1 if p.coupling.b.dims == 1 else p.coupling.c.dims) for p in plan.paths)
    weighted = sum(p.coupling.c.dims for p in plan.paths)
    radial = functions * plan.weight_rows
    per_channel = 2.0 * edges * channels / 1e9
    reals = 4e-9
    nodes = atoms * channels * reals
    small = pairs * (functions + plan.edge_dims) * reals
    forward = per_channel * (matrix + weighted + radial), nodes * (plan.source_dims + plan.target_dims) + small
    # The gradient makes the weights again, then those of features, of weights (and radial functions), of directions.
    backward = (
        per_channel * (3 * (matrix + weighted) + 2 * radial),
        nodes * (2 * plan.source_dims + plan.target_dims) + 2 * small,
    )
    output = edge_convolution(plan, h, phi, mixing, directions, batch.edges)
    gradient = torch.randn_like(output)
    seconds = {
        "forward": _best(lambda: edge_convolution(plan, h, phi, mixing, directions, batch.edges), 9),
        "gradient": _best(lambda: torch.autograd.grad(output, (h, phi, directions), gradient, retain_graph=True), 9),
    }
    results = {}
    for name, (gflop, gigabytes) in (("forward", forward), ("gradient", backward)):
        roofline = max(gflop / machine.gflops, gigabytes / machine.bandwidth)
        reach = Reach(gflop, gigabytes, seconds[name], roofline)
        results[name] = {**{k: float(np.round(v, 6)) for k, v in asdict(reach).items()}, "share": reach.share}
    return results
