"""A structure: the atoms, where they are, and the cell they repeat in."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from ase.data import atomic_numbers, chemical_symbols
from ase.formula import Formula
from ase.geometry import complete_cell
from numpy.typing import ArrayLike, NDArray

from cliffordstf.errors import ConfigError, StructureError

if TYPE_CHECKING:
    from ase import Atoms

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Structure:
    """Atoms in a box, checked when made.

    Attributes:
        numbers: Atomic numbers, (atoms,).
        positions: Å, (atoms, 3).
        cell: Lattice vectors as rows, Å, (3, 3); all zeros for a molecule.
        pbc: Which lattice directions repeat, (3,).
        name: How errors refer to this structure, for example `train.extxyz, frame 12`.
    """

    numbers: IntArray
    positions: FloatArray
    cell: FloatArray = field(default_factory=lambda: np.zeros((3, 3)))
    pbc: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(3, dtype=bool))
    name: str = "structure"

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", np.asarray(self.numbers, dtype=np.int64).reshape(-1))
        object.__setattr__(self, "positions", np.asarray(self.positions, dtype=np.float64).reshape(-1, 3))
        object.__setattr__(self, "cell", np.asarray(self.cell, dtype=np.float64).reshape(3, 3))
        object.__setattr__(self, "pbc", np.broadcast_to(np.asarray(self.pbc, dtype=bool), (3,)).copy())
        self._check()

    def _check(self) -> None:
        if len(self.numbers) == 0:
            raise StructureError(f"{self.name} holds no atoms; remove it or check how it was read.")
        if len(self.numbers) != len(self.positions):
            raise StructureError(
                f"{self.name} has {len(self.numbers)} atomic numbers but {len(self.positions)} positions; "
                "give one position per atom."
            )
        self._check_positions()
        if not np.isfinite(self.cell).all():
            raise StructureError(f"{self.name} has a cell with entries that are not finite; check its lattice.")
        if self.pbc.any() and self.periodic_measure() < 1e-6:
            raise StructureError(
                f"{self.name} is periodic along {''.join(np.array(list('abc'))[self.pbc])} but its lattice vectors "
                "there are zero or parallel; give a proper cell or switch pbc off."
            )

    def _check_positions(self) -> None:
        is_finite = np.isfinite(self.positions)
        if not is_finite.all():
            bad = ~is_finite.all(axis=1)
            atom = int(np.flatnonzero(bad)[0])
            raise StructureError(
                f"{self.name} has a position that is not a finite number (atom {atom}, "
                f"{symbol(int(self.numbers[atom]))}, {int(bad.sum())} atoms in all); check the file or the "
                "simulation that wrote it."
            )

    def moved(self, positions: FloatArray) -> "Structure":
        """The same atoms and cell at other positions, Å, (atoms, 3); everything else is shared, not copied."""
        found = object.__new__(Structure)
        found.__dict__.update(self.__dict__, positions=np.array(positions, dtype=np.float64).reshape(len(self), 3))
        found._check_positions()
        return found

    @cached_property
    def has_volume(self) -> bool:
        """Whether the cell spans a volume."""
        return bool(abs(np.linalg.det(self.cell)) > 0)

    def periodic_measure(self) -> float:
        """Length, area or volume (Å, Å², Å³) spanned by the lattice vectors of the periodic directions."""
        vectors = self.cell[self.pbc]
        return float(np.sqrt(max(np.linalg.det(vectors @ vectors.T), 0.0)))

    def full_cell(self) -> FloatArray:
        """The cell with its non-periodic lattice vectors replaced by unit vectors orthogonal to the others.

        Lattice vectors of non-periodic directions mean nothing and may be zero or parallel to the rest.
        """
        return np.asarray(complete_cell(self.cell * self.pbc[:, None]), dtype=np.float64)

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def from_ase(cls, atoms: "Atoms", name: str | None = None) -> "Structure":
        """Take atoms, cell and pbc from ASE."""
        return cls(
            numbers=atoms.get_atomic_numbers(),
            positions=atoms.get_positions(),
            cell=atoms.get_cell().array,
            pbc=atoms.get_pbc(),
            name=f"{name} ({atoms.get_chemical_formula()})" if name else atoms.get_chemical_formula(),
        )


def symbol(number: int) -> str:
    """Chemical symbol of an atomic number, or `Z=…` where there is none."""
    return str(chemical_symbols[number]) if 0 < number < len(chemical_symbols) else f"Z={number}"


def formula(structure: Structure) -> str:
    """Hill formula of a structure.

    Example:
        >>> formula(Structure([8, 1, 1], [[0, 0, 0], [0, 0, 1], [0, 1, 0]]))
        'H2O'
    """
    numbers, counts = np.unique(structure.numbers, return_counts=True)
    return str(Formula.from_dict({symbol(int(n)): int(c) for n, c in zip(numbers, counts, strict=True)}).format("hill"))


def as_structure(value: "Structure | Atoms", name: str | None = None) -> Structure:
    """Accept a Structure or an ASE Atoms object."""
    if isinstance(value, Structure):
        return value
    if hasattr(value, "get_positions") and hasattr(value, "get_atomic_numbers"):
        return Structure.from_ase(value, name)
    raise StructureError(
        f"expected a cliffordstf Structure or an ase Atoms object, got {type(value).__name__}; convert it first."
    )


def element_numbers(elements: "ArrayLike | None") -> tuple[int, ...]:
    """Sorted atomic numbers from symbols or numbers; None stands for elements 1 to 100.

    >>> element_numbers(["O", "H", 6])
    (1, 6, 8)
    """
    if elements is None:
        return tuple(range(1, 101))
    numbers = set()
    for element in elements:  # type: ignore[union-attr]
        if isinstance(element, str):
            if element not in atomic_numbers:
                raise ConfigError(f"'{element}' is not a chemical symbol; give symbols such as 'C' or atomic numbers.")
            numbers.add(int(atomic_numbers[element]))
        else:
            numbers.add(int(element))  # type: ignore[arg-type]
    bad = [number for number in numbers if not 1 <= number < len(chemical_symbols)]
    if bad or not numbers:
        raise ConfigError(f"elements={elements!r} must name at least one element, with atomic numbers from 1 to 118.")
    return tuple(sorted(numbers))
