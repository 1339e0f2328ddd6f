"""The operators, each behind one signature: compiled kernels where they can run, plain PyTorch elsewhere."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from cliffordstf.kernels import gpu, reference
from cliffordstf.kernels.edges import EdgeIndex
from cliffordstf.kernels.native.convolution import MOST_COMPONENTS, EdgeConvolution
from cliffordstf.kernels.native.edge import LARGEST_DEGREE, EdgeFactored, EdgeTrilinear
from cliffordstf.kernels.native.gate import ScalarGate
from cliffordstf.kernels.native.library import library
from cliffordstf.kernels.native.linear import TrackLinearSum
from cliffordstf.kernels.native.node import NodeBilinear
from cliffordstf.kernels.operator import is_traced, recorder
from cliffordstf.kernels.plan import EdgePlan, GatePlan, LinearPlan, NodePlan, TakePlan
from cliffordstf.kernels.program import record
from cliffordstf.kernels.take import Take

_plain_blocks: list[None] = []
"""One entry for every `plain_pytorch` block that is open."""


@contextmanager
def plain_pytorch() -> Iterator[None]:
    """Within this block the operators are plain PyTorch, as on a machine without a compiler; in all threads."""
    _plain_blocks.append(None)
    try:
        yield
    finally:
        _plain_blocks.pop()


def _compiled(tensor: Tensor, degree: int = 0) -> bool:
    if _plain_blocks or tensor.device.type != "cpu" or degree > LARGEST_DEGREE:
        return False
    return library(tensor.dtype) is not None


def _on_gpu(tensor: Tensor) -> bool:
    if _plain_blocks or tensor.device.type != "cuda":
        return False
    return tensor.dtype in (torch.float32, torch.float64) and gpu.available()


def edge_trilinear(plan: EdgePlan, features: Tensor, weights: Tensor, edge_tensors: Tensor, edges: EdgeIndex) -> Tensor:
    """Sum over neighbours of node features coupled to edge tensors, with a weight for every edge, row and channel.

    Args:
        plan: What is summed.
        features: (atoms, plan.source_dims, channels).
        weights: (edges, plan.weight_rows, channels).
        edge_tensors: (edges, plan.edge_dims).
        edges: Directed edges.

    Returns:
        (atoms, plan.target_dims, channels).
    """
    if _compiled(features, plan.degree):
        return EdgeTrilinear.from_key(plan.key)([features, weights, edge_tensors], edges)
    if _on_gpu(features):
        return gpu.EdgeTrilinear.from_key(plan.key)([features, weights, edge_tensors], edges)
    return reference.edge_trilinear(plan, features, weights, edge_tensors, edges)


def edge_factored(
    plan: EdgePlan, features: Tensor, weights: Tensor, factors: Tensor, edge_tensors: Tensor, edges: EdgeIndex
) -> Tensor:
    """`edge_trilinear` with weights that a pair's two edges share, times a factor of the edge; they are never stored.

    Args:
        plan: What is summed.
        features: (atoms, plan.source_dims, channels).
        weights: (pairs, plan.weight_rows, channels).
        factors: (edges, plan.weight_rows).
        edge_tensors: (edges, plan.edge_dims).
        edges: Directed edges.

    Returns:
        (atoms, plan.target_dims, channels).
    """
    if _compiled(features, plan.degree):
        return EdgeFactored.from_key(plan.key)([features, weights, factors, edge_tensors], edges)
    on_edges = weights.index_select(0, edges.pair) * factors[:, :, None]
    return edge_trilinear(plan, features, on_edges, edge_tensors, edges)


def edge_convolution(
    plan: EdgePlan, features: Tensor, radial: Tensor, mixing: Tensor, directions: Tensor, edges: EdgeIndex
) -> Tensor:
    """`edge_trilinear` with weights made of a few radial functions, w = radial · mixing, and tensors of directions.

    Neither is ever stored. What depends on the edge is given once per pair: the reverse of an edge has the same radial
    functions and the opposite direction. Gradients with respect to directions are those along the unit sphere, or equal
    to them on it.

    Args:
        plan: What is summed; the edge tensors are those of `stf_powers` with `unit`, all couplings conserve parity.
        features: (atoms, plan.source_dims, channels).
        radial: (pairs, functions).
        mixing: (functions, plan.weight_rows, channels).
        directions: Unit vectors of the straight edges, (pairs, 3).
        edges: Directed edges.

    Returns:
        (atoms, plan.target_dims, channels).
    """
    has_room = max(plan.source_dims, plan.target_dims) <= MOST_COMPONENTS
    if has_room and _compiled(features, plan.degree):
        return EdgeConvolution.from_key(plan.key)([features, radial, mixing, directions], edges)
    if _on_gpu(features):
        return gpu.EdgeConvolution.from_key(plan.key)([features, radial, mixing, directions], edges)
    return edge_trilinear(plan, features, *reference.expanded(plan, radial, mixing, directions, edges), edges)


def node_bilinear(
    plan: NodePlan, left: Tensor, right: Tensor, weights: Tensor | None = None, groups: Tensor | None = None
) -> Tensor:
    """Channel-wise product of two node features through the coupling table.

    Args:
        plan: What is summed.
        left: (atoms, plan.left_dims, channels).
        right: (atoms, plan.right_dims, channels).
        weights: (plan.weight_rows, channels), or (groups, plan.weight_rows, channels), or None without weights.
        groups: Which weights each atom uses, int64 (atoms,); only with weights of several groups.

    Returns:
        (atoms, plan.target_dims, channels).
    """
    compiled, on_gpu = _compiled(left, plan.degree), _on_gpu(left)
    if not (compiled or on_gpu):
        return reference.node_bilinear(plan, left, right, weights, groups)
    if weights is None:
        weights = left.new_ones(1, 1, left.shape[2])
    elif weights.ndim == 2:
        weights = weights[None]
    operator = (NodeBilinear if compiled else gpu.NodeBilinear).from_key(plan.key)
    return operator([left, right, weights], [] if groups is None else [groups])


def track_linear(plan: LinearPlan, terms: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Sum of linear maps of features over their channels, one matrix per track.

    Args:
        plan: What is summed.
        terms: Feature (atoms, components, in channels) and matrices (tracks, in channels, out channels) of each term.

    Returns:
        (atoms, plan.target_dims, out channels).
    """
    if _compiled(terms[0][0]):
        return TrackLinearSum.from_key(plan.key)([tensor for term in terms for tensor in term])
    return reference.track_linear(plan, terms)


def scalar_gate(plan: GatePlan, features: Tensor, logits: Tensor, bias: Tensor) -> Tensor:
    """SiLU on the scalars, a sigmoid times every other track.

    Args:
        plan: Where the tracks are.
        features: (atoms, components, channels), scalars first.
        logits: (atoms, gated tracks, channels).
        bias: Added to the logits, (gated tracks, channels).

    Returns:
        (atoms, components, channels).
    """
    if _compiled(features):
        return ScalarGate.from_key(plan.key)([features, logits, bias])
    return reference.scalar_gate(plan, features, logits, bias)


def take(features: Tensor, start: int, dims: int) -> Tensor:
    """Some components of a feature: (atoms, components, channels) -> (atoms, dims, channels)."""
    if recorder.current is None:
        return features.narrow(1, start, dims)
    return Take.from_key(TakePlan(start, dims).key)([features])


def one_node(function: Callable[[], Sequence[Tensor]], inputs: Sequence[Tensor], degree: int) -> list[Tensor]:
    """Call a function that is made of these operators only, with one node in autograd's graph for all of them.

    Results and derivatives are those of calling it, up to rounding. On the compiled kernels gradients of tensors that
    several operators read are summed by the kernels, which is faster; elsewhere the function is just called.

    Args:
        function: Returns results of operators.
        inputs: Some of the tensors that it starts from.
        degree: Highest of its tracks.
    """
    if not torch.is_grad_enabled() or is_traced(inputs) or not _compiled(inputs[0], degree):
        return list(function())
    return record(function)


def kernel_name(device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> str:
    """Which implementation runs: `compiled` on CPUs, `triton` on GPUs, or `reference`."""
    if _plain_blocks:
        return "reference"
    kind = torch.device(device).type
    if kind == "cuda" and gpu.available():
        return "triton"
    return "compiled" if kind == "cpu" and library(dtype) is not None else "reference"
