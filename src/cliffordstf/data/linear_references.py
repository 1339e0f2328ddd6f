"""Linear references: energies by atomic number that others fitted, as OC20 and OC22 publish them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cliffordstf.data.structure import symbol
from cliffordstf.errors import DataError

KEY = "coeff"
LARGEST = 1e4
"""eV; the coefficient of an element that was not in the fit is whatever its rounding errors gave, up to 1e12, or 0."""


def linear_references(path: Path | str, elements: Sequence[int]) -> dict[int, float]:
    """Energies of the given elements, eV by atomic number.

    Args:
        path: A .npz file with one array, or with `coeff` among others, whose entry Z belongs to atomic number Z.
        elements: Atomic numbers.

    Raises:
        DataError: The file has no such array, or an element was not in its fit.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise DataError(f"there is no file {path} with reference energies; check data.reference.")
    coefficients = _coefficients(path)
    known = np.isfinite(coefficients) & (np.abs(coefficients) <= LARGEST) & (coefficients != 0)
    missing = [number for number in elements if number >= len(coefficients) or not known[number]]
    if missing:
        raise DataError(
            f"{path.name} has no reference energy for {', '.join(map(symbol, missing))}, absent from its fit; leave "
            "those structures out, or use data.reference=least-squares."
        )
    return {int(number): float(coefficients[number]) for number in elements}


def _coefficients(path: Path) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    try:
        with np.load(path, allow_pickle=False) as archive:
            key = KEY if KEY in archive or len(archive.files) != 1 else archive.files[0]
            values = np.asarray(archive[key], dtype=np.float64)
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise DataError(f"{path} holds no array '{KEY}' of energies by atomic number ({error}); check it.") from None
    if values.ndim != 1:
        raise DataError(f"{path} holds an array of shape {values.shape}; it must be one energy per atomic number.")
    return values
