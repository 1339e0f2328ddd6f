"""The cell as part of a relaxation: the filter that optimizers move it through, and its gradient."""

import contextlib
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from ase import Atoms, units
from ase.filters import FrechetCellFilter
from ase.stress import voigt_6_to_full_3x3_stress

from cliffordstf.data.structure import FloatArray


def cell_filter(atoms: Atoms, pressure: float, constant_volume: bool = False) -> FrechetCellFilter:
    """Positions and cell as one set of coordinates for ASE's optimizers, at a pressure in GPa."""
    target = FrechetCellFilter(atoms, scalar_pressure=pressure * units.GPa, constant_volume=constant_volume)
    # ASE keeps the function on the filter up to 3.28 and on a part of it since.
    owners: tuple[Any, ...] = (target, getattr(target, "_utility", None))
    for owner in owners:
        if hasattr(owner, "logm"):
            owner.logm = _quiet(owner.logm)
    return target


def _quiet(logm: Callable[[FloatArray], FloatArray]) -> Callable[[FloatArray], FloatArray]:
    """Scipy's matrix logarithm without its remark on the accuracy, several lines a step for strongly deformed cells.

    Older versions of scipy print it, newer ones warn. The optimizer needs no more than a smooth coordinate.
    """

    def quiet(matrix: FloatArray) -> FloatArray:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.filterwarnings("ignore", message="logm result may be inaccurate", category=RuntimeWarning)
            return logm(matrix)

    return quiet


def cell_gradient(atoms: Atoms, pressure: float, constant_volume: bool = False) -> float:
    """Largest row of volume times (stress + pressure), per atom, eV; without its trace at constant volume.

    It depends on the structure alone, unlike ASE's gradient, which depends on the cell that the relaxation began with.

    Args:
        atoms: Periodic, with a calculator that gives stress.
        pressure: GPa.
        constant_volume: Whether the volume is held.
    """
    excess = voigt_6_to_full_3x3_stress(atoms.get_stress()) + pressure * units.GPa * np.eye(3)
    if constant_volume:
        excess -= np.trace(excess) / 3 * np.eye(3)
    return float(np.linalg.norm(atoms.get_volume() * excess, axis=1).max()) / len(atoms)
