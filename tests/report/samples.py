"""Evaluations as a trained model would leave them: real labels, predictions off by seeded noise."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms, units
from ase.build import bulk, molecule
from ase.calculators.emt import EMT

from cliffordstf.data.frame import Frame
from cliffordstf.data.structure import Structure
from cliffordstf.report import ReportInputs, ReportSection
from cliffordstf.train.evaluation import Evaluation
from cliffordstf.train.metrics import compute_metrics

KCAL = units.kcal / units.mol


def labelled(atoms: Atoms, name: str, stress: bool = False) -> Frame:
    atoms.calc = EMT()
    return Frame(
        Structure.from_ase(atoms, name),
        energy=float(atoms.get_potential_energy()),
        forces=atoms.get_forces(),
        stress=atoms.get_stress(voigt=False) if stress else None,
    )


def molecule_frames(count: int, seed: int = 0) -> list[Frame]:
    frames = []
    for index in range(count):
        atoms = molecule("CH3CH2OH")
        atoms.rattle(0.08, seed=seed + index)
        frames.append(labelled(atoms, f"frame {index}"))
    return frames


def crystal_frames(count: int, seed: int = 0) -> list[Frame]:
    frames = []
    for index in range(count):
        atoms = bulk("Cu", cubic=True) * (2, 1, 1)
        atoms.numbers[::3] = 28
        atoms.set_cell(atoms.cell.array * (1 + 0.01 * (index % 5)), scale_atoms=True)
        atoms.rattle(0.1, seed=seed + index)
        atoms.positions += 5.0  # Outside the box, as trajectories are.
        frames.append(labelled(atoms, f"alloy {index}", stress=True))
    return frames


def ethanol_frames(data: Path, count: int) -> list[Frame]:
    raw = np.load(data / "rmd17" / "rmd17_ethanol_test_01.npz")
    return [
        Frame(
            Structure(raw["nuclear_charges"], raw["coords"][index], name=f"ethanol, frame {index}"),
            energy=float(raw["energies"][index]) * KCAL,
            forces=raw["forces"][index] * KCAL,
        )
        for index in range(count)
    ]


def evaluation(frames: list[Frame], noise: float = 0.03, seed: int = 1) -> Evaluation:
    """Noise is eV/Å on forces at rest, more on large forces; eV on energies per atom a third of it."""
    rng = np.random.default_rng(seed)
    counts = [len(frame.structure) for frame in frames]
    missing = np.full((3, 3), np.nan)
    labels = np.concatenate(
        [np.full((n, 3), np.nan) if f.forces is None else f.forces for f, n in zip(frames, counts, strict=True)]
    )
    truth = np.nan_to_num(labels)
    size = np.linalg.norm(truth, axis=1, keepdims=True)
    energy = np.array([np.nan if frame.energy is None else frame.energy for frame in frames])
    mean = np.nanmean(energy) if np.isfinite(energy).any() else 0.0
    stress = np.stack([missing if frame.stress is None else frame.stress for frame in frames])
    return Evaluation(
        frames=frames,
        energy=np.nan_to_num(energy, nan=mean) + rng.normal(size=len(frames)) * noise * np.array(counts) / 30,
        energy_label=energy,
        forces=truth + rng.normal(size=truth.shape) * noise * (1 + size),
        force_labels=labels,
        stress=stress + rng.normal(size=stress.shape) * noise * 0.02,
        stress_labels=stress,
        structure_of_atom=np.repeat(np.arange(len(frames)), counts),
        numbers=np.concatenate([frame.structure.numbers for frame in frames]),
        baseline_energy=np.full(len(frames), mean),
    )


def section(title: str, frames: list[Frame], noise: float = 0.03) -> ReportSection:
    return section_of(title, evaluation(frames, noise))


E0 = {1: -13.587, 6: -1029.489, 8: -2041.840, 28: -41000.5, 29: -45000.25}
"""eV: isolated-atom energies of the size that all-electron calculations give."""


def with_total_energies(found: Evaluation) -> Evaluation:
    """The same evaluation with the energies of isolated atoms in all energies, and given as reference."""
    each = np.array([E0[int(number)] for number in found.numbers])
    reference = np.bincount(found.structure_of_atom, each, len(found.frames))
    return replace(
        found,
        energy=found.energy + reference,
        energy_label=found.energy_label + reference,
        baseline_energy=found.baseline_energy + reference,
        reference_energy=reference,
    )


def config_type_frames(count: int) -> list[Frame]:
    """Molecules, crystals, isolated atoms and a frame without a label, under long and short labels."""
    groups = {
        "ethanol, rattled by 0.08 Å from the equilibrium geometry": molecule_frames(count),
        "bulk_amorphous_quench_1200K_to_300K_second_batch": crystal_frames(count),
        "IsolatedAtom": [labelled(Atoms(symbol), f"isolated {symbol}") for symbol in ("H", "C", "O", "Cu", "Ni")],
    }
    frames = [replace(frame, config_type=label) for label, members in groups.items() for frame in members]
    return [*frames, *molecule_frames(1, seed=1000)]


def section_of(title: str, found: Evaluation) -> ReportSection:
    with np.errstate(invalid="ignore"):  # Missing labels are NaN by agreement.
        return ReportSection(title, found, compute_metrics(found))


def without_forces(frames: list[Frame]) -> list[Frame]:
    return [replace(frame, forces=None) for frame in frames]


def history(epochs: int = 60) -> list[dict[str, float]]:
    rng = np.random.default_rng(3)
    rows = []
    for epoch in range(1, epochs + 1):
        fall = np.exp(-epoch / 18) + 0.02
        jitter = 1 + 0.08 * rng.normal()
        rows.append(
            {
                "epoch": epoch,
                "seconds": 3.1 * epoch,
                "learning_rate": 1e-3 * 0.5 * (1 + np.cos(np.pi * epoch / epochs)) + 1e-6,
                "train_loss": 2.0 * fall**1.5,
                "valid_energy_mae_mev": 180 * fall * jitter,
                "valid_force_mae_mev_per_a": 900 * fall * jitter,
                "valid_force_cosine": 1 - 0.4 * fall**2 * jitter,
            }
        )
    return rows


def inputs(sections: list[ReportSection], **changes: Any) -> ReportInputs:
    base = ReportInputs(
        title="default/small on ethanol",
        sections=sections,
        history=history(),
        config={"model": {"preset": "default/small", "cutoff": 5.0, "channels": [32, 16]}, "train": {"epochs": 60}},
        provenance={"command": "cliffordstf train config.yaml", "commit": "0123abc", "seed": 0,
                    "versions": {"torch": "2.6", "numpy": "1.26"}},
        comparison=[
            {"name": "baseline", "energy_mae_mev": 180.2, "force_mae_mev_per_a": 905.0, "force_cosine": 0.0,
             "parameters": 0},
            {"name": "default/small", "energy_mae_mev": 3.1, "force_mae_mev_per_a": 12.4, "force_cosine": 0.9981,
             "parameters": 193_472},
        ],
        notes=["10 ps of molecular dynamics at 500 K: energy drift 0.02 meV/atom/ps."],
        extra_figures=[],
    )  # fmt: skip
    return replace(base, **changes)
