"""The multilinear maps that carry the model's cost, each behind one signature."""

from typing import TYPE_CHECKING

from cliffordstf.kernels.native.attention import attention_weights, can_weigh
from cliffordstf.kernels.native.muon import can_update, update_matrices
from cliffordstf.kernels.ops import (
    activation,
    edge_convolution,
    edge_factored,
    edge_trilinear,
    embedding,
    kernel_name,
    node_bilinear,
    pair_geometry,
    scalar_gate,
    take,
    track_linear,
)
from cliffordstf.kernels.plan import (
    AS_IT_IS,
    EdgePath,
    EdgePlan,
    GatePlan,
    LinearPlan,
    LinearTerm,
    NodePath,
    NodePlan,
    use_plain_pytorch,
)
from cliffordstf.kernels.symbol import Recording, ScheduleError, Step, Symbol, ValueShape
from cliffordstf.moved import moved_from

if not TYPE_CHECKING:
    __getattr__ = moved_from(__name__)

__all__ = [
    "AS_IT_IS",
    "EdgePath",
    "EdgePlan",
    "GatePlan",
    "LinearPlan",
    "LinearTerm",
    "NodePath",
    "NodePlan",
    "Recording",
    "ScheduleError",
    "Step",
    "Symbol",
    "ValueShape",
    "activation",
    "attention_weights",
    "can_update",
    "can_weigh",
    "edge_convolution",
    "edge_factored",
    "edge_trilinear",
    "embedding",
    "kernel_name",
    "node_bilinear",
    "pair_geometry",
    "scalar_gate",
    "take",
    "track_linear",
    "update_matrices",
    "use_plain_pytorch",
]

if not TYPE_CHECKING:
    __getattr__ = moved_from(__name__)
