"""How structures are read: the one set of options that every command which reads structures takes."""

from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from cliffordstf.data.stress_order import parse_stress_order
from cliffordstf.data.units import AUTO, LabelKeys, Units
from cliffordstf.host.budget import USUAL_BUDGET, Budget
from cliffordstf.options import Options


class ReadLimits(Options):
    """What reading one file may cost; files that cost more are damaged or hostile, or the limits are to be raised.

    Example:
        >>> ReadLimits(gigabytes=200).budget().gigabytes
        200.0
    """

    gigabytes: PositiveFloat = Field(
        USUAL_BUDGET.gigabytes, description="Memory that the content of a file may take, GB."
    )
    atoms: PositiveInt = Field(USUAL_BUDGET.atoms, description="Atoms in all structures of a file.")
    seconds: PositiveFloat = Field(USUAL_BUDGET.seconds, description="Time to read a file, s.")
    depth: PositiveInt = Field(USUAL_BUDGET.depth, description="Levels of nesting in a file.")

    def budget(self) -> Budget:
        """As the readers take it."""
        return Budget(**self.model_dump())


class ReadOptions(Options):
    """Units, labels and selection of the structures in data files.

    Example:
        >>> ReadOptions(units={"energy": "Hartree", "forces": "Hartree/bohr"}).units.forces
        'Hartree/bohr'
    """

    units: Units = Field(Units(), description="Units of the files; inside everything is in eV and Å.")
    keys: LabelKeys = Field(LabelKeys(), description="Names of the labels in the files; found by default.")
    stress_order: str = Field(
        AUTO,
        description="Order of the shear components where a stress has six numbers, such as 'xy yz zx' (VASP) or "
        "'yz xz xy' (Voigt); auto: what the format fixes; where it fixes none, found from the forces.",
    )
    config_type: str = Field(
        AUTO,
        description="What labels structures for errors and weights by kind: a key of the files, or 'file' for the name "
        "of the file; auto: config_type where structures have it, else the file where there are several; 'none'.",
    )
    exclude: str | None = Field(
        None, description="File with ids of structures to leave out, such as the 3054 of QM9; indices count the others."
    )
    system_reference: str | None = Field(
        None,
        description="File with energies by system to subtract first, such as oc20_ref.pkl: adsorption energies from "
        "total ones.",
    )
    relaxations: bool = Field(
        False,
        description="Treat the frames of a system, or of a file, as one relaxation: learn the energy of the last from "
        "the structure of the first (IS2RE).",
    )
    ignore_cells: bool = Field(
        False, description="Treat every structure as a cluster in empty space, to see what periodic images are worth."
    )
    free_atoms_only: bool = Field(
        False, description="Learn and measure forces on atoms that are free to move only; needs data that mark them."
    )
    limits: ReadLimits = Field(ReadLimits(), description="What reading one file may cost.")
    limit: PositiveInt | None = Field(None, description="Read at most this many structures of each set.")

    @field_validator("stress_order")
    @classmethod
    def _order(cls, value: str) -> str:
        return value.casefold() if value.casefold() == AUTO else parse_stress_order(value)


READ_AUTO = ReadOptions()
