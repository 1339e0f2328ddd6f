"""From features to atomic energies and, in the paper's models, direct forces."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from cliffordstf.algebra.clifford import bivector_to_axial
from cliffordstf.algebra.couplings import geometric_product_couplings, track_coupling
from cliffordstf.algebra.tracks import BIVECTOR, SCALAR, STF2, VECTOR, Layout
from cliffordstf.kernels import (
    EdgePath,
    EdgePlan,
    NodePath,
    NodePlan,
    Symbol,
    ValueShape,
    edge_trilinear,
    node_bilinear,
)
from cliffordstf.nn.geometry import Geometry
from cliffordstf.nn.linear import TrackLinear, mlp, plain_weights
from cliffordstf.nn.norm import norm

FIRST_ENERGIES = 0.01
"""Root mean square of atomic energies before training, in units of the energy scale. Small: what a random start says
about structures that the data do not cover would stay in the trained potential, and where forces have a head of their
own, few labels would have to unlearn it."""


def energy_network(*widths: int) -> nn.Sequential:
    """A network from scalars to an atomic energy that starts near zero."""
    network = mlp(*widths, 1)
    with torch.no_grad():
        cast("nn.Linear", network[-1]).weight.mul_(FIRST_ENERGIES)
    return network


def read_out(network: nn.Sequential, scalars: Tensor) -> Tensor:
    """Apply a network to scalars, (atoms, 1, channels) -> (atoms, 1, outputs).

    Raises:
        ScheduleError: A symbol meets a network that is not linear layers with biases and SiLU.
    """
    if isinstance(scalars, Symbol):
        weights = plain_weights(network)
        shape = ValueShape("atoms", 1, len(weights[-1]))
        found: Any = scalars.recording.apply("readout", [scalars], [shape], weights)
        return found[0]
    return network(scalars[:, 0])[:, None]


class InvariantReadout(nn.Module):
    """The paper's energy head: an MLP on scalars, STF norms and optionally the scalars of GP(W h, h).

    Args:
        layout: Tracks of the features.
        channels, hidden: Widths.
        gp_scalars: Add the grade-0 part of GP(W h, h) to the inputs.
    """

    def __init__(self, layout: Layout, channels: int, hidden: int, gp_scalars: bool) -> None:
        super().__init__()
        self.layout = layout
        self.tensors = tuple(track for track in layout if track.degree >= 2)
        grades = Layout(tuple(track for track in layout if track.grade is not None))
        self.mix = TrackLinear(grades, channels, channels) if gp_scalars else None
        self.square = NodePlan(
            tuple(
                NodePath(c, grades.slice(c.a).start, grades.slice(c.b).start, 0, scale=float(sign))
                for c, sign in geometric_product_couplings()
                if c.c == SCALAR and c.a in grades
            ),
            grades.dims,
            grades.dims,
            SCALAR.dims,
        )
        inputs = 1 + len(self.tensors) + int(gp_scalars)
        self.network = energy_network(inputs * channels, hidden, hidden)

    def forward(self, features: Tensor) -> Tensor:
        """(atoms, components, channels) -> (atoms,)."""
        invariants = [self.layout.take(features, SCALAR)[:, 0]]
        invariants += [norm(self.layout.take(features, track), track) for track in self.tensors]
        if self.mix is not None:
            multivector = features[:, : self.mix.layout.dims]
            invariants.append(node_bilinear(self.square, self.mix(multivector), multivector)[:, 0])
        energies: Tensor = self.network(torch.cat(invariants, dim=1))[:, 0]
        return energies


class DirectForces(nn.Module):
    """The paper's force head: a linear map of vectors and Hodge duals, plus a gated sum of S·r̂ over edges.

    The edge term of atom i is Σ_j g(|S_j|) (S_i + S_j)·r̂_ij averaged over channels. It has no envelope, and the Hodge
    dual of a bivector is an axial vector: both as in the paper, which is why these forces are neither smooth at the
    cutoff nor equivariant under reflections.
    """

    def __init__(self, layout: Layout, channels: int, hidden: int, hodge: bool, vectors: bool = True) -> None:
        super().__init__()
        self.layout = layout
        self.hodge = hodge and BIVECTOR in layout
        width = channels * (2 if self.hodge else 1)
        self.weight = nn.Parameter(torch.randn(width) / width**0.5) if vectors else None
        self.gate = mlp(channels, hidden, 1) if STF2 in layout else None
        contraction = track_coupling(STF2, VECTOR, VECTOR)
        self.edge_plan = EdgePlan(
            (
                EdgePath(track_coupling(SCALAR, VECTOR, VECTOR), source=0, edge=1, target=0, weight=0),
                EdgePath(contraction, source=1, edge=1, target=3, weight=0),
            ),
            source_dims=6,
            edge_dims=4,
            target_dims=6,
            weight_rows=1,
        )
        self.node_plan = NodePlan((NodePath(contraction, 0, 0, 0),), 5, 3, 3)

    def forward(self, features: Tensor, directions: Tensor, geometry: Geometry) -> Tensor:
        """Features (atoms, components, channels), direction tensors (edges, >= 4) -> forces (atoms, 3)."""
        forces = features.new_zeros(features.shape[0], 3)
        if self.weight is not None:
            vectors = self.layout.take(features, VECTOR)
            if self.hodge:
                vectors = torch.cat([vectors, bivector_to_axial(self.layout.take(features, BIVECTOR))], dim=2)
            forces = forces + vectors @ self.weight
        return forces if self.gate is None else forces + self._edge_forces(features, directions, geometry)

    def _edge_forces(self, features: Tensor, directions: Tensor, geometry: Geometry) -> Tensor:
        tensors = self.layout.take(features, STF2)
        assert self.gate is not None
        gate = self.gate(norm(tensors, STF2))[:, :, None]
        mean = tensors.mean(dim=2, keepdim=True)
        ones = directions.new_ones(directions.shape[0], 1, 1)
        sums = edge_trilinear(
            self.edge_plan,
            torch.cat([gate, gate * mean], dim=1),
            ones,
            directions[:, :4],
            geometry.edges,
        )
        return (sums[:, 3:] + node_bilinear(self.node_plan, mean, sums[:, :3].contiguous()))[:, :, 0]
