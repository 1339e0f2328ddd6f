"""Where sampling starts: a structure file or the name of a molecule."""

from pathlib import Path

from ase import Atoms
from ase.build import molecule
from ase.collections import g2

from cliffordstf.data.ase_structures import read_structures, without_labels
from cliffordstf.errors import DataError
from cliffordstf.options.text import did_you_mean


def start_structures(name_or_path: str) -> list[Atoms]:
    """All structures of a file, or a molecule of ASE's G2 set by name, such as `CH3CH2OH`.

    Raises:
        DataError: It is neither.
    """
    if Path(name_or_path).is_file():
        return [without_labels(atoms) for atoms in read_structures(name_or_path)]
    if name_or_path in g2.names:
        return [molecule(name_or_path)]
    raise DataError(
        f"'{name_or_path}' is neither a structure file nor a molecule that ASE knows by name"
        f"{did_you_mean(name_or_path, g2.names)}; names are formulas such as CH3CH2OH or H2O."
    )
