"""Space groups: what a crystal has, and relaxations that keep it."""

from dataclasses import dataclass
from typing import Any

from ase import Atoms
from ase.cell import Cell
from ase.constraints import FixSymmetry

from cliffordstf.errors import ConfigError


@dataclass(frozen=True)
class SpaceGroup:
    """Space group of a crystal and its conventional cell.

    Attributes:
        number: Of the International Tables, 1 to 230.
        symbol: Hermann-Mauguin symbol.
        lengths_a: Å, of the conventional cell.
        angles_deg: Degrees, α, β and γ.
        atoms: In the conventional cell.
    """

    number: int
    symbol: str
    lengths_a: tuple[float, float, float]
    angles_deg: tuple[float, float, float]
    atoms: int


def space_group(atoms: Atoms, symprec: float = 0.01) -> SpaceGroup:
    """Space group and lattice constants of a crystal.

    Args:
        atoms: Periodic in three directions.
        symprec: Å, how far atoms may be from symmetric positions.

    Raises:
        ConfigError: The package spglib is not installed, or finds no space group.

    Example:
        >>> from ase.build import bulk
        >>> group = space_group(bulk("Cu", a=3.6))
        >>> group.symbol, group.lengths_a, group.atoms
        ('Fm-3m', (3.6, 3.6, 3.6), 4)
    """
    dataset: Any = _spglib().get_symmetry_dataset(
        (atoms.cell.array, atoms.get_scaled_positions(), atoms.numbers), symprec=symprec
    )
    if dataset is None:
        raise ConfigError(f"no space group was found for {atoms.get_chemical_formula()}; check symprec={symprec:g} Å.")
    a, b, c, *angles = (round(float(value), 10) for value in Cell(dataset.std_lattice).cellpar())
    alpha, beta, gamma = angles
    return SpaceGroup(
        int(dataset.number), str(dataset.international), (a, b, c), (alpha, beta, gamma), len(dataset.std_types)
    )


def hold_symmetry(atoms: Atoms, symprec: float = 0.01) -> None:
    """Move atoms to their symmetric positions and let relaxations keep the space group, by ASE's FixSymmetry."""
    _spglib()
    atoms.set_constraint(FixSymmetry(atoms, symprec=symprec))


def _spglib() -> Any:
    try:
        import spglib  # noqa: PLC0415 - an optional package
    except ImportError:
        raise ConfigError(
            "properties of crystals need the packages phonopy and spglib, which are not installed: "
            "pip install 'cliffordstf[properties]'."
        ) from None
    return spglib
