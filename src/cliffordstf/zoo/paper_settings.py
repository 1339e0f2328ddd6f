"""Presets after the paper's tables of settings: one for each model of each table.

`NAME-md17` is what the table for rMD17 lists for NAME, `NAME-oc` that for OC20 and OC22, `NAME-qm9` those for QM9 and
Molecule3D, which agree. NAME itself is a million parameters for H, C, N and O with a cutoff of 5 Å (ICTP: the paper's
settings; `ictp-l1-1m` is what the others are).
"""

from typing import Any, Literal

SettingsTable = Literal["md17", "oc", "qm9"]


def rows(name: str, *tables: SettingsTable, **fields: Any) -> dict[str, dict[str, Any]]:
    """Presets of a model that has the same row in several tables.

    Args:
        name: Of the model, for example `mace-l1`.
        tables: That list it.
        fields: What they list, as far as it differs from the defaults of the family's config.
    """
    return {f"{name}-{table}": fields for table in tables}
