"""What each family is expected to do, measured; docs/zoo.md explains the rows that differ from the defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NARROW: dict[str, dict[str, Any]] = {
    "mace": {"channels": 8, "radial_widths": (16, 16)},
    "painn": {"channels": 16, "basis": 12},
    "schnet": {"channels": 16, "filters": 16, "layers": 3, "basis": 12},
    "nequip": {"channels": 8, "radial_width": 16},
    "torchmd-et": {"channels": 16, "layers": 2, "heads": 2, "basis": 12},
    "tensornet": {"channels": 16, "basis": 12},
    "visnet": {"channels": 16, "layers": 3, "heads": 2, "basis": 12},
    "dimenet++": {
        "channels": 16,
        "layers": 2,
        "basis": 3,
        "spherical": 3,
        "triplet_embedding": 8,
        "output_embedding": 16,
        # With upstream's zeros every untrained model says zero, and no two seeds differ.
        "output_initialiser": "glorot_orthogonal",
    },
    "gotennet": {"channels": 16, "layers": 2, "heads": 2, "basis": 12},
    "ictp": {"channels": 4, "product_channels": 3, "radial_widths": (16, 16)},
}
"""Options that make a family small enough for a quick test."""

SMOOTHNESS: dict[str, int] = {
    "mace": 2,
    "painn": 1,
    "schnet": 1,
    "nequip": 2,
    "torchmd-et": -1,
    "tensornet": 1,
    "visnet": -1,
    "dimenet++": 2,
    "gotennet": -1,
    "ictp": 2,
}
"""Derivatives of the energy that are continuous at the cutoff, 2 meaning two or more; -1: the energy itself jumps."""

MANY_ELEMENTS: tuple[str, ...] = ("ictp",)
"""Families whose presets have 10^6 parameters for a hundred elements, rather than for H, C, N and O."""


@dataclass(frozen=True)
class Nature:
    """Tolerances of a family.

    Attributes:
        conservative: Whether the forces are the gradient of the energy.
        derivative_tolerance: Of forces and stress against finite differences.
        tolerances: Relative errors of exact relations that the family breaks, by name of the relation.
        single_precision: Relative error of float32 against float64.
        dead_weights: Endings of the names of weights that no output depends on.
    """

    conservative: bool = True
    derivative_tolerance: float = 1e-6
    tolerances: Mapping[str, float] = field(default_factory=dict)
    single_precision: float = 1e-3
    dead_weights: tuple[str, ...] = ()

    def tolerance(self, relation: str) -> float:
        """Relative error up to which an exact relation counts as obeyed."""
        return self.tolerances.get(relation, 1e-9)


NATURE: dict[str, Nature] = {
    # Vectors start at zero, so what the first layer makes of them is zero; the readout drops its last vectors.
    "torchmd-et": Nature(dead_weights=("attention_layers.0.vec_proj.weight", "output_network.1.vec2_proj.weight")),
    "visnet": Nature(
        dead_weights=(
            *(f"vis_mp_layers.0.{part}" for part in ("vec_proj.weight", "w_src_proj.weight", "w_trg_proj.weight")),
            *(f"vis_mp_layers.0.f_proj.{part}" for part in ("weight", "bias")),
            "output_network.1.vec2_proj.weight",
        )
    ),
}
