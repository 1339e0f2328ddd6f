"""Other formats that ASE reads: those of structure files and of electronic-structure programs."""

from pathlib import Path

from ase.io.formats import UnknownFileTypeError, filetype, iread

from cliffordstf.data.readers.extxyz import record_from_atoms
from cliffordstf.data.readers.record import Contents
from cliffordstf.host.budget import USUAL_BUDGET, Budget

NAMES = {
    "aims": "FHI-aims geometry",
    "aims-output": "FHI-aims output",
    "castep-castep": "CASTEP output",
    "castep-cell": "CASTEP cell",
    "castep-md": "CASTEP MD",
    "cfg": "AtomEye cfg",
    "cif": "CIF",
    "cube": "cube",
    "espresso-in": "Quantum ESPRESSO input",
    "espresso-out": "Quantum ESPRESSO output",
    "gaussian-in": "Gaussian input",
    "gaussian-out": "Gaussian output",
    "gen": "DFTB+ gen",
    "gromacs": "GROMACS gro",
    "lammps-data": "LAMMPS data",
    "lammps-dump-text": "LAMMPS dump",
    "mol": "mol",
    "nwchem-out": "NWChem output",
    "orca-output": "ORCA output",
    "proteindatabank": "PDB",
    "res": "SHELX res",
    "turbomole": "Turbomole coord",
    "vasp": "POSCAR",
    "vasp-out": "OUTCAR",
    "vasp-xdatcar": "XDATCAR",
    "vasp-xml": "vasprun.xml",
    "xsd": "Materials Studio xsd",
    "xsf": "XCrySDen xsf",
}
"""Formats of ASE that are read, and what they are called. None of their readers runs code from a file."""

SUFFIXES = {".cif", ".poscar", ".vasp", ".pdb", ".gro", ".gen", ".xsf", ".xsd", ".res", ".cfg", ".cell", ".castep"}


def is_named_for_vasp(path: Path) -> bool:
    """Whether the name alone tells the format: a POSCAR begins with any text, which may look like another format."""
    return path.name.startswith(("POSCAR", "CONTCAR")) or path.suffix.casefold() in {".poscar", ".vasp"}


def format_of(path: Path) -> str | None:
    """ASE's name of the format, None if it is none of those that are read."""
    if is_named_for_vasp(path):
        return "vasp"
    try:
        found = str(filetype(str(path), guess=False))
    except (UnknownFileTypeError, UnicodeDecodeError):
        return None
    return found if found in NAMES else None


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET) -> Contents:
    """Read every structure, with energy, forces and stress where the file has them; ASE converts units."""
    name = format_of(path) or ""
    budget.unpacked(path.stat().st_size, str(path))
    images = iread(str(path), index=slice(0, limit), format=name, do_not_split_by_at_sign=True)
    return Contents(NAMES[name], [record_from_atoms(atoms) for atoms in images])
