"""GFN2-xTB through tblite, which is an optional dependency."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator

from cliffordstf.data.ase_structures import without_labels
from cliffordstf.errors import ConfigError

METHOD = "GFN2-xTB"
LABEL_ACCURACY = 0.01
"""tblite's accuracy of labels; its default of 1 leaves errors of about 1e-4 eV/Å in the forces of ethanol."""
POSITION_DECIMALS = 5
FORCE_DECIMALS = 5
ENERGY_DECIMALS = 7


def make_xtb(accuracy: float = 1.0, reuse: bool = True) -> Any:
    """An ASE calculator.

    Args:
        accuracy: Of the self-consistent field; smaller is tighter.
        reuse: Start from the charges of the last structure: faster, but results then depend a little on history.

    Raises:
        ConfigError: tblite is not installed.
    """
    try:
        from tblite.ase import TBLite  # noqa: PLC0415 - optional dependency
    except ImportError:
        raise ConfigError(
            "generating data needs tblite, which is missing: pip install 'cliffordstf[generate]'."
        ) from None
    return TBLite(method=METHOD, accuracy=accuracy, cache_api=reuse, verbosity=0)


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Run on one thread if wanted: for a small molecule more are slower, on a busy machine ten times slower.

    tblite and PyTorch share an OpenMP runtime that has read its environment long before, so PyTorch has to set it.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if wanted else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def tblite_version() -> str:
    """Version of the installed tblite."""
    return version("tblite")


def label(atoms: Atoms, info: dict[str, Any]) -> Atoms:
    """A labelled copy: positions rounded as they will be written, then energy and forces at exactly those positions."""
    frame = without_labels(atoms)
    frame.arrays.pop("momenta", None)
    frame.info = dict(info)
    frame.set_constraint()
    frame.positions = np.round(frame.positions, POSITION_DECIMALS) + 0.0
    frame.calc = make_xtb(LABEL_ACCURACY, reuse=False)
    energy, forces = frame.get_potential_energy(), frame.get_forces()
    frame.calc = SinglePointCalculator(
        # Adding zero turns -0.0 into 0.0.
        frame,
        energy=round(float(energy), ENERGY_DECIMALS),
        forces=np.round(forces, FORCE_DECIMALS) + 0.0,
    )
    return frame
