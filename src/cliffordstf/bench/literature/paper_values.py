"""The paper's own tables, as it prints them, and in the units that they really hold.

One file a table: model (by our name), column, value, standard deviation over seeds. The rMD17 and ablation tables say
meV and meV/Å and hold kcal/mol and kcal/mol/Å: the base model's 21.855 on aspirin is the mean force of the data in
kcal/mol/Å, the error of predicting zero.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from cliffordstf.data.units import ENERGY_UNITS

_IN_KCAL = {"rmd17_forces": None, "rmd17_energy": None, "ablation": ("forces", "energy")}
"""Tables, and which of their columns (None for all), that are in kcal/mol."""

_SETTINGS = {
    **dict.fromkeys(("rmd17_forces", "rmd17_energy", "rmd17_cosine", "wallclock"), "-md17"),
    **dict.fromkeys(("oc20", "oc22", "scaling"), "-oc"),
    "qm9": "-qm9",
}
"""Tables, and how presets with the settings that their numbers were found with end."""


@dataclass(frozen=True)
class Printed:
    """A number of the paper.

    Attributes:
        value: Mean over seeds; meV and meV/Å for rMD17 and the ablation, otherwise in the paper's unit.
        std: Standard deviation over seeds; None where the paper gives none.
    """

    value: float
    std: float | None


def paper_value(table: str, model: str, column: str) -> Printed | None:
    """What the paper reports; None if it does not.

    Args:
        table: `rmd17_cosine`, `rmd17_forces`, `rmd17_energy`, `ablation`, `oc20`, `oc22`, `qm9`, `wallclock` or
            `scaling`.
        model: Preset or peer; with the settings of the table (`painn-qm9`) it is the same row as without (`painn`).
        column: For example a molecule, `aggregate`, or `is2re val_id`.
    """
    found = _table(table).get((model.removesuffix(_SETTINGS.get(table, "")), column))
    if found is None or table not in _IN_KCAL:
        return found
    columns = _IN_KCAL[table]
    if columns is not None and column not in columns:
        return found
    factor = 1000 * ENERGY_UNITS["kcal/mol"]
    return Printed(found.value * factor, None if found.std is None else found.std * factor)


def paper_models(table: str) -> list[str]:
    """Models of a table, in its order."""
    return list(dict.fromkeys(model for model, _ in _table(table)))


@cache
def _table(name: str) -> dict[tuple[str, str], Printed]:
    text = (files(__package__) / "paper" / f"{name}.csv").read_text(encoding="utf-8")
    return {
        (row["model"], row["column"]): Printed(float(row["value"]), float(row["std"]) if row["std"] else None)
        for row in csv.DictReader(text.splitlines())
    }
