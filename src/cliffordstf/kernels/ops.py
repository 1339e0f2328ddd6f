"""The operators, each behind one signature: compiled kernels where they can run, plain PyTorch elsewhere.

Applied to symbols (`cliffordstf.kernels.symbol`) those of the default model are recorded instead.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels import gpu, reference, tables
from cliffordstf.kernels.native.convolution import MOST_COMPONENTS, EdgeConvolution
from cliffordstf.kernels.native.edge import LARGEST_DEGREE, EdgeFactored, EdgeTrilinear
from cliffordstf.kernels.native.gate import ScalarGate
from cliffordstf.kernels.native.library import library
from cliffordstf.kernels.native.linear import TrackLinearSum
from cliffordstf.kernels.native.node import NodeBilinear
from cliffordstf.kernels.plan import AS_IT_IS, AnyPlan, EdgePlan, GatePlan, LinearPlan, LinearTerm, NodePlan
from cliffordstf.kernels.symbol import Symbol, ValueShape

Function = Literal["silu", "sigmoid", "tanh"]


def _compiled(plan: AnyPlan, tensor: Tensor, degree: int = 0) -> bool:
    if plan.plain or tensor.device.type != "cpu" or degree > LARGEST_DEGREE:
        return False
    return library(tensor.dtype) is not None


def _on_gpu(plan: AnyPlan, tensor: Tensor) -> bool:
    if plan.plain or tensor.device.type != "cuda":
        return False
    return tensor.dtype in (torch.float32, torch.float64) and gpu.available()


def _recorded(kind: str, inputs: Sequence[Any], dims: int, weights: Sequence[Tensor], **more: Any) -> Any:
    """Record an operator on the features of atoms; the symbol of its result stands for a tensor."""
    channels = more.pop("channels", 0) or inputs[0].spec.channels
    shape = ValueShape("atoms", dims, channels)
    (result,) = inputs[0].recording.apply(kind, inputs, [shape], weights, **more)
    return result


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
    if _compiled(plan, features, plan.degree):
        return EdgeTrilinear.from_key(plan.key)([features, weights, edge_tensors], edges)
    if _on_gpu(plan, features):
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
    if _compiled(plan, features, plan.degree):
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
    if isinstance(features, Symbol):
        found, sizes = tables.convolution_tables(plan)
        # The second result, the numbers of the pairs in their frames, is for the operator alone.
        shapes = [
            ValueShape("atoms", plan.target_dims, features.shape[2]),
            ValueShape("pairs", sizes["numbers"], features.shape[2]),
        ]
        inputs: list[Any] = [features, radial, directions]
        made: Any = features.recording.apply("edge_convolution", inputs, shapes, [mixing], sizes, found)
        return made[0]
    has_room = max(plan.source_dims, plan.target_dims) <= MOST_COMPONENTS
    if has_room and _compiled(plan, features, plan.degree):
        return EdgeConvolution.from_key(plan.key)([features, radial, mixing, directions], edges)
    if _on_gpu(plan, features):
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
    if isinstance(left, Symbol):
        held = [] if weights is None else [weights if weights.ndim == 3 else weights[None]]
        return _recorded("node_bilinear", [left, right], plan.target_dims, held, tables=tables.node_tables(plan))
    compiled, on_gpu = _compiled(plan, left, plan.degree), _on_gpu(plan, left)
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
    if isinstance(terms[0][0], Symbol):
        inputs, weights = [feature for feature, _ in terms], [matrices for _, matrices in terms]
        return _recorded(
            "track_linear",
            inputs,
            plan.target_dims,
            weights,
            channels=weights[0].shape[2],
            numbers={"scale": plan.scale},
            tables=tables.linear_tables(plan),
        )
    if _compiled(plan, terms[0][0]):
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
    if isinstance(features, Symbol):
        gains = {"silu_gain": plan.silu_gain, "sigmoid_gain": plan.sigmoid_gain}
        dims = features.spec.dims
        return _recorded(
            "scalar_gate", [features, logits], dims, [bias], numbers=gains, tables=tables.gate_tables(plan)
        )
    if _compiled(plan, features):
        return ScalarGate.from_key(plan.key)([features, logits, bias])
    return reference.scalar_gate(plan, features, logits, bias)


def take(features: Tensor, start: int, dims: int) -> Tensor:
    """Some components of a feature: (atoms, components, channels) -> (atoms, dims, channels)."""
    if not isinstance(features, Symbol):
        return features.narrow(1, start, dims)
    if (start, dims) == (0, features.shape[1]):
        return features
    plan = LinearPlan((LinearTerm(features.shape[1], ((start, 0, dims, AS_IT_IS),)),), dims)
    return track_linear(plan, [(features, torch.empty(0, features.shape[2], features.shape[2]))])


def activation(features: Tensor, function: Function, gain: float = 1.0) -> Tensor:
    """A function of every number, times a gain; only for scalars, of which any function is a scalar again."""
    if isinstance(features, Symbol):
        numbers = {"function": function, "gain": gain}
        return _recorded("activation", [features], features.shape[1], [], numbers=numbers)
    functions: dict[Function, Callable[[Tensor], Tensor]] = {
        "silu": torch.nn.functional.silu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
    }
    return functions[function](features) * gain


def embedding(table: Tensor, species: Tensor) -> Tensor:
    """Scalars of atoms by element: table (elements, channels) and species (atoms,) -> (atoms, 1, channels)."""
    if isinstance(species, Symbol):
        found: Any = species.recording.apply("embedding", [], [ValueShape("atoms", 1, table.shape[1])], [table])
        return found[0]
    return table.index_select(0, species)[:, None]


def pair_geometry(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors of pairs, Å, (pairs, 3) -> distances, Å, (pairs,) and unit vectors (pairs, 3)."""
    if isinstance(vectors, Symbol):
        shapes = [ValueShape("pairs", 1), ValueShape("pairs", 3)]
        found: Any = vectors.recording.apply("pair_geometry", [vectors], shapes)
        return found[0], found[1]
    distances = vectors.norm(dim=1)
    return distances, vectors / distances[:, None]


def kernel_name(device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> str:
    """Which implementation runs: `compiled` on CPUs, `triton` on GPUs, or `reference`."""
    kind = torch.device(device).type
    if kind == "cuda" and gpu.available():
        return "triton"
    return "compiled" if kind == "cpu" and library(dtype) is not None else "reference"
