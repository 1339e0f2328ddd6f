"""Numbers that others have published, in our units; each table names its source."""

import csv
from functools import cache
from importlib.resources import files

RMD17_MOLECULES: tuple[str, ...] = (
    "aspirin",
    "azobenzene",
    "benzene",
    "ethanol",
    "malonaldehyde",
    "naphthalene",
    "paracetamol",
    "salicylic",
    "toluene",
    "uracil",
)

_RMD17: dict[int, dict[str, tuple[tuple[float, float], ...]]] = {
    950: {
        "MACE": (
            (2.2, 6.6), (1.2, 3.0), (0.4, 0.3), (0.4, 2.1), (0.8, 4.1),
            (0.5, 1.6), (1.3, 4.8), (0.9, 3.1), (0.5, 1.5), (0.5, 2.1),
        ),
        "Allegro": (
            (2.3, 7.3), (1.2, 2.6), (0.3, 0.2), (0.4, 2.1), (0.6, 3.6),
            (0.2, 0.9), (1.5, 4.9), (0.9, 2.9), (0.4, 1.8), (0.6, 1.8),
        ),
        "NequIP": (
            (2.3, 8.2), (0.7, 2.9), (0.04, 0.3), (0.4, 2.8), (0.8, 5.1),
            (0.9, 1.3), (1.4, 5.9), (0.7, 4.0), (0.3, 1.6), (0.4, 3.1),
        ),
        "ACE": (
            (6.1, 17.9), (3.6, 10.9), (0.04, 0.5), (1.2, 7.3), (1.7, 11.1),
            (0.9, 5.1), (4.0, 12.7), (1.8, 9.3), (1.1, 6.5), (1.1, 6.6),
        ),
    },
    50: {
        "MACE": (
            (17.0, 43.9), (5.4, 17.7), (0.7, 2.7), (6.7, 32.6), (10.0, 43.3),
            (2.1, 9.2), (9.7, 31.5), (6.5, 28.4), (3.1, 12.1), (4.4, 25.9),
        ),
        "NequIP": (
            (19.5, 52.0), (6.0, 20.0), (0.6, 2.9), (8.7, 40.2), (12.7, 52.5),
            (2.1, 10.0), (14.3, 39.7), (8.0, 35.0), (3.3, 15.1), (7.3, 40.1),
        ),
    },
}  # fmt: skip


_FAMILIES = {"mace": "MACE", "mace-l1": "MACE", "mace-l2": "MACE", "mace-l3": "MACE", "nequip-l1": "NequIP"}
"""Peers with published numbers at their own recommended settings."""


def published_family(model: str) -> str | None:
    """What a peer is called where its numbers are published; with or without the settings of the rMD17 tables."""
    return _FAMILIES.get(model.removesuffix("-md17"))


def rmd17(train: int, model: str, molecule: str) -> tuple[float, float] | None:
    """Energy MAE, meV, and force MAE, meV/Å, on rMD17 with about so many training frames; None if not known.

    Tables 1 and 2 of the MACE paper (Batatia et al., NeurIPS 2022), which lists the others as well.
    """
    table = _of_size(train).get(model)
    return None if table is None else table[RMD17_MOLECULES.index(molecule)]


def rmd17_models(train: int) -> tuple[str, ...]:
    """Models with published numbers."""
    return tuple(_of_size(train))


def _of_size(train: int) -> dict[str, tuple[tuple[float, float], ...]]:
    """What is published for a training set of this size, or nearly."""
    return _RMD17[950] if train >= NEARLY else _RMD17.get(train, {})


NEARLY = 900
"""The paper's training set, beside the 950 to 1000 frames of everybody else."""


def published_value(table: str, model: str, column: str, train: int | None = None) -> float | None:
    """What is published of a peer at its own recommended settings; None if it is not known here.

    Args:
        table, column: As in `bench.literature.paper_values`; energies of QM9 are in eV.
        model: Preset, with or without the settings of a table.
        train: Training frames of rMD17.
    """
    kinds = ("rmd17_energy", "rmd17_forces")
    family = published_family(model)
    if table in kinds and family is not None and column in RMD17_MOLECULES:
        pair = rmd17(train or 950, family, column)
        return None if pair is None else pair[kinds.index(table)]
    if table in kinds and train is not None and train < NEARLY:
        return None
    return next((_others()[table, n, column] for n in _names(model) if (table, n, column) in _others()), None)


def _names(model: str) -> tuple[str, str]:
    return model, model.rpartition("-")[0]


@cache
def _others() -> dict[tuple[str, str, str], float]:
    text = (files(__package__) / "published.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {(row["table"], row["model"], row["column"]): float(row["value"]) for row in rows}
