"""What models obey, trained or not: the physics suite as a table, with what a model really does where it fails."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cliffordstf import zoo
from cliffordstf.bench.jobs.interpreters import missing
from cliffordstf.bench.jobs.sweep import file_name
from cliffordstf.bench.tables.formatting import titled
from cliffordstf.bench.tables.table import Table
from cliffordstf.data.structure import Structure
from cliffordstf.model.build import build
from cliffordstf.model.potential import Potential
from cliffordstf.train.provenance import describe_run
from cliffordstf.train.run import Watcher
from cliffordstf.verify import physics
from cliffordstf.verify.structures import random_cluster, triclinic_crystal
from cliffordstf.verify.symmetries import check_symmetries

ELEMENTS = (1, 6, 8)
OURS = ("default", "paper/full", "paper/clifford")
DERIVATIVE, EXACT = 1e-6, 1e-9
"""Largest relative errors: of derivatives against finite differences, and of relations that hold exactly, float64."""
MOVED = 0.1
"""By how much every weight is moved off its start, as a share of its tensor's size: a bias that starts at zero would
hide what it does after training."""


@dataclass(frozen=True)
class PhysicsJob:
    """The suite on one model, with the widths of its preset, untrained, in float64.

    Attributes:
        model: Preset or peer.
    """

    model: str

    @property
    def name(self) -> str:
        """Safe for a file name."""
        return f"physics-{file_name(self.model)}"

    @property
    def labels(self) -> dict[str, Any]:
        """What was measured."""
        return {"benchmark": "physics", "model": self.model}

    def settings(self) -> dict[str, Any]:
        """Its labels say everything."""
        return {}

    def run(self, directory: Path, watcher: Watcher | None) -> dict[str, Any]:  # noqa: ARG002 - a matter of seconds
        """Measure."""
        potential = _moved(self._build())
        parameters = sum(weight.numel() for weight in potential.parameters())
        return {"parameters": parameters, "seed": 0, "elements": list(ELEMENTS), **measure(potential), **describe_run()}

    def _build(self) -> Potential:
        if self.model in zoo.names():
            return zoo.build(self.model, ELEMENTS, seed=0, dtype=torch.float64)
        return build(self.model, elements=ELEMENTS, seed=0).double()


def models_here() -> tuple[list[str], dict[str, str]]:
    """Ours and every peer with the widths of its plain name that some interpreter can build; why not the others."""
    plain = [name for name in zoo.names() if not name.endswith(("-md17", "-oc", "-qm9", "-1m", "-10m"))]
    reasons = missing(plain)
    return [*OURS, *(name for name in plain if name not in reasons)], reasons


def _moved(potential: Potential) -> Potential:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in (weight for weight in potential.parameters() if weight.requires_grad):
            size = float(weight.square().mean().sqrt())
            noise = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
            weight.add_(noise, alpha=MOVED * size if size > 0 else MOVED)
    return potential.eval()


def measure(potential: Potential) -> dict[str, Any]:
    """Relative errors of the suite's relations, and jumps at the cutoff; a potential in float64.

    `force` is None for models whose forces come from a head of their own.
    """
    cluster, crystal = random_cluster(ELEMENTS, atoms=5), triclinic_crystal(ELEMENTS)
    alone = Structure(np.array([8]), np.zeros((1, 3)))
    jump = physics.cutoff_jump(potential, 1e-3)
    free = potential.predict(alone).forces
    assert free is not None
    is_conservative = potential.force_mode == "conservative"
    return {
        "force": max(physics.force_error(potential, s) for s in (cluster, crystal)) if is_conservative else None,
        "stress": physics.stress_error(potential, crystal),
        **check_symmetries(potential, claims_o3=True).errors(),
        "supercell": physics.supercell_error(potential, crystal),
        "cell choice": physics.cell_choice_error(potential, crystal),
        "separation": physics.separation_error(potential),
        "batch": physics.batch_error(potential, [cluster, crystal, alone]),
        "force on a free atom, eV/Å": float(free.abs().max()),
        "continuous": physics.continuous_derivatives(potential),
        "jump": {"energy, eV": jump.energy, "forces, eV/Å": jump.forces, "slope, eV/Å²": jump.curvature},
    }


_EXACT = {
    "rotation": "turned structures differ",
    "inversion": "mirror images differ",
    "translation": "depends on the origin",
    "permutation": "depends on the order of atoms",
    "supercell": "depends on how often a cell is repeated",
    "cell choice": "depends on the choice of the cell",
    "separation": "distant parts feel each other",
    "batch": "depends on what else is in the batch",
}

_JUMPS = {
    -1: ("energy jumps", "energy, eV"),
    0: ("forces jump", "forces, eV/Å"),
    1: ("slope of the forces jumps", "slope, eV/Å²"),
}
"""By the number of continuous derivatives."""


def _breaks(error: float, bound: float) -> bool:
    """An error that is not a number breaks every bound."""
    return not error <= bound


def failures(found: dict[str, Any]) -> list[str]:
    """What a model really does where it does not obey, in words and numbers."""
    said = []
    if found["force"] is None:
        said.append("forces from a head of their own")
    elif _breaks(found["force"], DERIVATIVE):
        said.append(f"forces are not the gradient of the energy ({found['force']:.0e})")
    if _breaks(found["stress"], DERIVATIVE):
        said.append(f"stress is not the strain derivative ({found['stress']:.0e})")
    said += [f"{words} ({found[name]:.0e})" for name, words in _EXACT.items() if _breaks(found[name], EXACT)]
    if _breaks(found["force on a free atom, eV/Å"], 0.0):
        said.append(f"a free atom feels {found['force on a free atom, eV/Å']:.2g} eV/Å")
    what = _JUMPS.get(found["continuous"])
    if what is not None:
        words, key = what
        said.append(f"{words} by {found['jump'][key]:.1g} {key.split(', ')[1]} at the cutoff")
    return said


def physics_table(results: Sequence[dict[str, Any]]) -> Table:
    """A row for each model: worst errors, derivatives that are continuous, and what it really does."""
    heads = ["model", "parameters", "derivatives", "symmetry", "periodic", "apart", "continuous", "in words"]
    table = Table(
        titled(
            "Physics of untrained models, float64: largest relative errors of forces and stress against differences, "
            "of rotation, inversion, translation and permutation, of other cells of the same crystal, of distant and "
            "batched structures; derivatives of the energy that are continuous at the cutoff",
            results,
        ),
        heads,
    )
    for found in sorted(results, key=lambda result: (len(failures(result)), result["model"])):
        table.add(
            found["model"],
            f"{found['parameters']:,}",
            f"{max(found['force'] or 0.0, found['stress']):.0e}",
            f"{max(found[name] for name in ('rotation', 'inversion', 'translation', 'permutation')):.0e}",
            f"{max(found['supercell'], found['cell choice']):.0e}",
            f"{max(found['separation'], found['batch']):.0e}",
            {-1: "none", 2: "2 or more"}.get(found["continuous"], str(found["continuous"])),
            "; ".join(failures(found)) or "obeys all",
        )
    return table
