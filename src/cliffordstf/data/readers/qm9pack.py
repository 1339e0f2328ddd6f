"""QM9 from the installed package qm9pack: only its tables are read, none of its code is run."""

import csv
import importlib.util
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from cliffordstf.data.readers import qm9
from cliffordstf.data.readers.record import Contents, Record
from cliffordstf.errors import DataError
from cliffordstf.host.budget import USUAL_BUDGET, Budget

ADDRESS = "qm9pack:"

COLUMNS = dict(
    zip(
        qm9.TARGETS,
        (
            *("RotA_GHz", "RotB_GHz", "RotC_GHz", "Dipole_debye", "Polarizability_bohr3"),
            *("HOMO_au", "LUMO_au", "HOMO_LUMO_gap_au", "R2_bohr2", "ZPVE_au"),
            *("InternalEnergy_0K_au", "InternalEnergy_298K_au", "Enthalphy_298K_au", "GibbsFreeEnergy_298K_au"),
            "Heatcapacity_Cv_cal_mol_K",
        ),
        strict=True,
    )
)
"""Target -> column, spelt as in the package."""


def read(path: Path, limit: int | None, budget: Budget = USUAL_BUDGET) -> Contents:  # noqa: ARG001
    """Read the 130,831 molecules; the 3,054 that failed the consistency check are not among them."""
    rows = (record for file in _tables() for record in _molecules(file))
    return qm9.contents("qm9pack", list(islice(rows, limit)))


def _tables() -> list[Path]:
    spec = importlib.util.find_spec("qm9pack")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        raise DataError(f"{ADDRESS} needs the package qm9pack; install it with pip install 'cliffordstf[qm9]'.")
    files = sorted((Path(places[0]) / "data").glob("qm9_part*.csv"))
    if not files:
        raise DataError(f"{places[0]} holds no data/qm9_part*.csv; install qm9pack 1.0.3 anew.")
    return files


def _molecules(file: Path) -> Iterator[Record]:
    with file.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            try:
                symbols = row["Elements"].strip("[]").replace("'", "").split(",")
                positions = [qm9.number(word) for word in row["XYZ_Ang"].replace("[", "").replace("]", "").split(",")]
                targets = {name: qm9.number(row[column]) for name, column in COLUMNS.items()}
                yield qm9.molecule(int(row["Index"]), symbols, positions, targets)
            except (ValueError, KeyError, AttributeError) as error:
                raise DataError(f"{file} has a damaged row ({error}); install qm9pack 1.0.3 anew.") from None
