"""QM9: names and units of its 15 targets, and its raw files `dsgdb9nsd_*.xyz`."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from ase.data import atomic_numbers

from cliffordstf.data.readers.paths import natural_key
from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.errors import DataError
from cliffordstf.host.budget import USUAL_BUDGET, Budget

TARGETS = ("A", "B", "C", "mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "U0", "U", "H", "G", "Cv")
"""In the order of the files: GHz (A to C), D, bohr³, Hartree (homo to gap), bohr², Hartree (zpve to G), cal/mol/K."""

ENERGY = "U0"
KEY_UNITS = dict.fromkeys(("A", "B", "C", "mu", "alpha", "r2", "Cv"), "1")
RAW_FILES = "dsgdb9nsd_*.xyz"


def contents(format: str, records: list[Record], more_units: Mapping[str, str] | None = None) -> Contents:
    """What is the same in every form of QM9: Hartree, the label U0, no forces."""
    return Contents(
        format,
        records,
        energy_unit="Hartree",
        key_units={**KEY_UNITS, **(more_units or {})},
        energy_key=ENERGY,
        has_forces=False,
    )


def number(text: str) -> float:
    """A number as Mathematica may have written it: `1.5*^-6` is 1.5e-6."""
    return float(text.replace("*^", "e"))


def molecule(index: int, symbols: Iterable[str], positions: list[float], targets: dict[str, float]) -> Record:
    """A molecule by its gdb index; positions are in Å, one after the other."""
    return Record(
        numbers=np.array([atomic_numbers.get(symbol, 0) for symbol in symbols], dtype=np.int64),
        positions=np.array(positions, dtype=np.float64).reshape(-1, 3),
        properties=targets,
        label=f"gdb {index}",
        id=index,
    )


def is_raw(start: bytes) -> bool:
    """Whether a file with these first bytes is a raw file of QM9: the second line starts with `gdb` and the index."""
    lines = start.split(b"\n", 2)
    words = lines[1].split() if len(lines) > 2 else []
    return len(words) > len(TARGETS) + 1 and words[0] == b"gdb" and words[1].isdigit()


def is_folder(path: Path) -> bool:
    """Whether a folder holds raw files."""
    return path.is_dir() and next(path.glob(RAW_FILES), None) is not None


def read_raw(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET) -> Contents:
    """Read one raw file, or all of a folder in the order of their names."""
    files = sorted(path.glob(RAW_FILES), key=lambda file: natural_key(file.name)) if path.is_dir() else [path]
    for file in files[:limit]:
        budget.unpacked(file.stat().st_size, str(file))
    return contents("QM9 xyz", [_parse(file) for file in files[:limit]])


def _parse(file: Path) -> Record:
    """Atoms, then `gdb index targets…`, then symbol, position and charge of each; frequencies and names follow."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        n_atoms, words = int(lines[0]), lines[1].split()
        targets = dict(zip(TARGETS, map(number, words[2 : 2 + len(TARGETS)]), strict=True))
        atoms = [line.split() for line in lines[2 : 2 + n_atoms]]
        positions = [number(word) for atom in atoms for word in atom[1:4]]
        if len(positions) != 3 * n_atoms:
            raise ValueError(f"{n_atoms} atoms are stated, {len(atoms)} are there")
        return molecule(int(words[1]), [atom[0] for atom in atoms], positions, targets)
    except (ValueError, IndexError) as error:
        raise DataError(f"{file.name} is not a whole raw file of QM9 ({error}); copy it again.") from None
