"""Stress, pressure and density of a structure, in the units that are printed."""

from typing import Any

import numpy as np
from ase import Atoms, units

from cliffordstf.data.structure import FloatArray

VOIGT = ("xx", "yy", "zz", "yz", "xz", "xy")
"""Order of the components of a stress, as in ASE."""

GRAMS_PER_CM3 = 1.0 / (1e-3 * units.kg / (1e-2 * units.m) ** 3)
"""g/cm³ per amu/Å³."""


def in_gpa(stress: Any) -> Any:
    """A stress or pressure in GPa from one in eV/Å³.

    Example:
        >>> round(in_gpa(0.01), 4)
        1.6022
    """
    return stress / units.GPa


def potential_stress(atoms: Atoms) -> FloatArray | None:
    """Stress without its kinetic part, eV/Å³ in Voigt order.

    Returns:
        (6,), positive under tension; None without a volume or where the calculator gives no stress.
    """
    if not abs(np.linalg.det(atoms.cell.array)) > 0:
        return None
    try:
        return np.asarray(atoms.get_stress(), dtype=np.float64)
    except NotImplementedError:  # ASE's PropertyNotImplementedError is one
        return None


def pressure(atoms: Atoms) -> float:
    """Instantaneous pressure with its kinetic part, GPa, positive under compression.

    Args:
        atoms: With momenta and a calculator that gives stress.
    """
    return float(in_gpa(-atoms.get_stress(include_ideal_gas=True)[:3].mean()))


def density(atoms: Atoms) -> float:
    """Mass per volume, g/cm³.

    Example:
        >>> from ase.build import bulk
        >>> round(density(bulk("Cu", a=3.61)), 2)
        8.97
    """
    return float(atoms.get_masses().sum() / atoms.get_volume() * GRAMS_PER_CM3)


def components(stress: FloatArray) -> str:
    """The six components of a stress, GPa in Voigt order, with their names.

    Example:
        >>> components(np.array([1.5, 0.0, 0.0, 0.0, 0.0, -0.25]))
        'xx +1.5000  yy +0.0000  zz +0.0000  yz +0.0000  xz +0.0000  xy -0.2500 GPa'
    """
    named = (f"{name} {value:+.4f}" for name, value in zip(VOIGT, stress, strict=True))
    return "  ".join(named) + " GPa"
