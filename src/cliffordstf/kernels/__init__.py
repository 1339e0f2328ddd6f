"""The bilinear and trilinear maps that carry the model's cost, each behind one signature."""

from cliffordstf.kernels.plan import EdgePath, EdgePlan, NodePath, NodePlan
from cliffordstf.kernels.reference import edge_trilinear, node_bilinear

__all__ = ["EdgePath", "EdgePlan", "NodePath", "NodePlan", "edge_trilinear", "node_bilinear"]
