"""A structure with its labels."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cliffordstf.data.neighbours import neighbour_list
from cliffordstf.data.structure import FloatArray, Structure
from cliffordstf.errors import StructureError

if TYPE_CHECKING:
    from ase import Atoms

OUT_OF_REACH = 6.0
"""Å; an atom in a periodic box whose images are farther away is isolated."""


@dataclass(frozen=True)
class Frame:
    """One labelled structure, in eV and Å; a missing label is None, and entries that are NaN are masked in training.

    Attributes:
        structure: Atoms and cell.
        energy: Total energy, eV.
        forces: eV/Å, (atoms, 3).
        stress: eV/Å³, (3, 3), symmetric, positive under tension as in ASE.
        fixed: Atoms that were held in place when the labels were made, (atoms,); None where the data do not say.
        tags: Whole numbers that sort the atoms, (atoms,), as ASE has them; in Open Catalyst 0 is a slab's inside, 1 its
            surface and 2 the adsorbate. None where the data do not say.
        id: Whole number by which lists of structures name this one, such as the gdb index of QM9.
        config_type: Label of the kind of structure, such as `slab` or `AIMD`; None without labels.
        weights: Of energy, forces and stress in the loss.
        atoms: The structure as ASE has it, with velocities and whatever else its file holds; only where asked for.
    """

    structure: Structure
    energy: float | None = None
    forces: FloatArray | None = None
    stress: FloatArray | None = None
    fixed: NDArray[np.bool_] | None = None
    tags: NDArray[np.int64] | None = None
    id: int | None = None
    config_type: str | None = None
    weights: tuple[float, float, float] = (1.0, 1.0, 1.0)
    atoms: "Atoms | None" = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.forces is not None and self.forces.shape != self.structure.positions.shape:
            raise StructureError(
                f"{self.structure.name} has {len(self.structure)} atoms but forces of shape {self.forces.shape}; "
                "forces need one row of three numbers per atom."
            )
        if self.stress is not None and self.stress.shape != (3, 3):
            raise StructureError(
                f"{self.structure.name} has a stress of shape {self.stress.shape}; it must be a 3 x 3 matrix."
            )
        for name, values in (("a mask of fixed atoms", self.fixed), ("tags", self.tags)):
            if values is not None and values.shape != self.structure.numbers.shape:
                raise StructureError(
                    f"{self.structure.name} has {len(self.structure)} atoms but {name} of shape {values.shape}; give "
                    "one entry per atom."
                )

    @property
    def has_energy(self) -> bool:
        """Whether there is an energy to learn from."""
        return self.energy is not None and bool(np.isfinite(self.energy))

    @property
    def has_forces(self) -> bool:
        """Whether at least one atom has a force to learn from."""
        return self.forces is not None and bool(np.isfinite(self.forces).all(axis=1).any())

    @property
    def has_stress(self) -> bool:
        """Whether at least one component of the stress is there to learn from."""
        return self.stress is not None and bool(np.isfinite(self.stress).any())

    @property
    def is_isolated_atom(self) -> bool:
        """Whether this is one atom whose images, if any, are out of reach of each other."""
        return len(self.structure) == 1 and (
            not self.structure.pbc.any() or len(neighbour_list(self.structure, OUT_OF_REACH).senders) == 0
        )
