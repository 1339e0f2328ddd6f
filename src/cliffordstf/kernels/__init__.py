"""The multilinear maps that carry the model's cost, each behind one signature."""

from typing import TYPE_CHECKING

from cliffordstf.kernels.operator import differentiate, wants
from cliffordstf.kernels.ops import (
    edge_convolution,
    edge_factored,
    edge_trilinear,
    kernel_name,
    node_bilinear,
    one_node,
    plain_pytorch,
    scalar_gate,
    take,
    track_linear,
)
from cliffordstf.kernels.plan import AS_IT_IS, EdgePath, EdgePlan, GatePlan, LinearPlan, LinearTerm, NodePath, NodePlan
from cliffordstf.moved import moved_from

__all__ = [
    "AS_IT_IS",
    "EdgePath",
    "EdgePlan",
    "GatePlan",
    "LinearPlan",
    "LinearTerm",
    "NodePath",
    "NodePlan",
    "differentiate",
    "edge_convolution",
    "edge_factored",
    "edge_trilinear",
    "kernel_name",
    "node_bilinear",
    "one_node",
    "plain_pytorch",
    "scalar_gate",
    "take",
    "track_linear",
    "wants",
]

if not TYPE_CHECKING:
    __getattr__ = moved_from(__name__)
