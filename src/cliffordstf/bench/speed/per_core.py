"""Time per atom and core of dynamics with copper and with water: our models and native MACE, by ASE calculators."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ase
import numpy as np
import torch
from ase.calculators.calculator import Calculator as AseCalculator

from cliffordstf.bench.speed import symmetrix_mace
from cliffordstf.bench.speed.systems import copper_box, water_box
from cliffordstf.bench.speed.timing import Rounds, measure
from cliffordstf.data.structure import Structure
from cliffordstf.host.denormals import without_denormals
from cliffordstf.integrations.ase import Calculator
from cliffordstf.model.build import build

MODELS = ("default/small", "default", "default/1m")
SYMMETRIX = symmetrix_mace.NAME
ELEMENTS = (1, 8, 29)
MOVE = 1e-3
"""Å, by which atoms move from one evaluation to the next, so that nothing is remembered."""
SYSTEMS: dict[str, Callable[[int], Structure]] = {"copper": copper_box, "water": water_box}
SIZES = (("copper", 864), ("water", 192))
"""Atoms of the box of copper, molecules of that of water."""
Sizes = Sequence[tuple[str, int]]
Say = Callable[[str], None]


def measure_per_core(
    names: Sequence[str], sizes: Sizes, limit: float, say: Say
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """A row for each model and system, and why models are missing.

    Args:
        names: Of `MODELS`, and `SYMMETRIX`.
        sizes: Systems and their sizes, as `SIZES`.
        limit: Seconds for the evaluations of one model and system; three are always made.
        say: Told each row.
    """
    missing = {}
    if SYMMETRIX in names and (reason := symmetrix_mace.unavailable()) is not None:
        missing[SYMMETRIX] = reason
    taking_part = [name for name in names if name not in missing]
    if not taking_part or not sizes:
        return [], missing
    if SYMMETRIX in taking_part:
        say(f"{SYMMETRIX} compiles its kernels for the model, the first time for several minutes")
    # A process of its own: native libraries bring thread pools and settings that the other measurements should not see.
    threads = torch.get_num_threads()
    with _threads(threads), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        rows, failed = pool.submit(time_systems, taking_part, sizes, limit, threads).result()
    for row in rows:
        say(f"{row['system']}, {row['name']}: {row['microseconds_per_atom_and_core']:.0f} µs per atom and core")
    return rows, {**missing, **failed}


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """OpenMP reads its number of threads when it is loaded."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(number)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("OMP_NUM_THREADS")
        else:
            os.environ["OMP_NUM_THREADS"] = before


@without_denormals()
def time_systems(
    names: Sequence[str], sizes: Sizes, limit: float, threads: int
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Time all models in turn, system by system; rows, and why models failed."""
    torch.set_num_threads(threads)
    rows: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    with TemporaryDirectory() as folder:
        makers = _makers(names, Path(folder), failed)
        for system, size in sizes:
            structure = SYSTEMS[system](size)
            stopwatches = {name: _stopwatch(maker(), structure) for name, maker in makers.items()}
            found = measure(stopwatches, Rounds(7, limit, warm_up=limit))
            for name, timing in found.timings.items():
                factor = 1e6 * threads / len(structure)
                rows.append(
                    {
                        "name": name,
                        "system": system,
                        "atoms": len(structure),
                        "threads": threads,
                        "microseconds_per_atom_and_core": factor * timing.median,
                        "quartiles": [factor * value for value in timing.quartiles],
                        "rounds": len(timing.seconds),
                    }
                )
    return rows, failed


def _makers(names: Sequence[str], folder: Path, failed: dict[str, str]) -> dict[str, Callable[[], AseCalculator]]:
    """What makes a calculator of each model; why some cannot be made goes into `failed`."""
    makers: dict[str, Callable[[], AseCalculator]] = {}
    for name in names:
        if name != SYMMETRIX:
            makers[name] = _ours(name)
            continue
        try:
            file = symmetrix_mace.export(ELEMENTS, folder)
            symmetrix_mace.calculator(file)
        except Exception as error:  # of other packages and their compiler
            lines = str(error).strip().splitlines()
            failed[name] = f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
        else:
            makers[name] = _native(file)
    return makers


def _ours(name: str) -> Callable[[], AseCalculator]:
    potential = build(name, elements=ELEMENTS, seed=0, average_neighbours=42.0)
    return lambda: Calculator(potential, dtype="float32")


def _native(file: Path) -> Callable[[], AseCalculator]:
    return lambda: symmetrix_mace.calculator(file)


def _stopwatch(calculator: AseCalculator, structure: Structure) -> Callable[[], float]:
    """Seconds of energy and forces after a small move, as in a step of dynamics."""
    atoms = ase.Atoms(structure.numbers, structure.positions, cell=structure.cell, pbc=structure.pbc)
    atoms.calc = calculator
    random = np.random.default_rng(0)

    def run() -> float:
        atoms.positions = structure.positions + random.normal(0, MOVE, structure.positions.shape)
        start = time.perf_counter()
        atoms.get_potential_energy()
        atoms.get_forces()
        return time.perf_counter() - start

    return run
