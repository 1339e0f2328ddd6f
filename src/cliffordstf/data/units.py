"""Units of data files and names of their labels, and the factors to eV and Å."""

from collections.abc import Callable, Mapping
from typing import Any

from ase import units as ase_units
from pydantic import Field, ValidationInfo, field_validator, model_validator

from cliffordstf.errors import ConfigError
from cliffordstf.options import Options
from cliffordstf.options.text import did_you_mean

AUTO = "auto"

ENERGY_UNITS: dict[str, float] = {
    "eV": 1.0,
    "meV": 1e-3,
    "kcal/mol": ase_units.kcal / ase_units.mol,
    "kJ/mol": ase_units.kJ / ase_units.mol,
    "Hartree": ase_units.Hartree,
    "1": 1.0,
}
"""Unit of energy -> eV. `1` stands for numbers that are no energies, such as dipole moments, and stay as they are."""

LENGTH_UNITS: dict[str, float] = {"Å": 1.0, "bohr": ase_units.Bohr, "nm": 10.0}
"""Unit of length -> Å."""

STRESS_UNITS: dict[str, float] = {
    sign + name: factor * (-1.0 if sign else 1.0)
    for sign in ("", "-")
    for name, factor in {
        "eV/Å³": 1.0,
        "GPa": ase_units.GPa,
        "kbar": 0.1 * ase_units.GPa,
        "bar": 1e-4 * ase_units.GPa,
        "Hartree/bohr³": ase_units.Hartree / ase_units.Bohr**3,
    }.items()
}
"""Unit of stress -> eV/Å³ with ASE's sign (positive under tension). A minus marks the other sign, as VASP prints it."""

_ALIASES: dict[str, str] = {
    "ha": "Hartree",
    "eh": "Hartree",
    "a": "Å",
    "ang": "Å",
    "angstrom": "Å",
    "a0": "bohr",
    "ev/a3": "eV/Å³",
    "ev/ang3": "eV/Å³",
    "ev/angstrom3": "eV/Å³",
    "kb": "kbar",
    "ha/bohr3": "Hartree/bohr³",
    "hartree/bohr3": "Hartree/bohr³",
}


def _plain(text: str) -> str:
    """Spelling that does not matter: case, spaces, how a cube and an Ångström are typed."""
    return text.casefold().replace(" ", "").replace("^", "").replace("³", "3").replace("å", "a")


def _parse(text: str, kind: str, known: Mapping[str, float]) -> str:
    plain = _plain(text)
    sign = "-" if plain.startswith("-") else ""
    alias = _ALIASES.get(plain.removeprefix("-"), "")
    spellings = {_plain(name): name for name in known}
    name = spellings.get(plain) or sign + alias
    if name not in known:
        hint = did_you_mean(plain, spellings)
        raise ConfigError(f"'{text}' is not a unit of {kind}{hint}; choose one of {', '.join(known)}.")
    return name


def parse_energy_unit(text: str) -> str:
    """Canonical name of a unit of energy, whatever its spelling.

    >>> parse_energy_unit("KCAL/MOL")
    'kcal/mol'
    """
    return _parse(text, "energy", ENERGY_UNITS)


def parse_length_unit(text: str) -> str:
    """Canonical name of a unit of length."""
    return _parse(text, "length", LENGTH_UNITS)


def parse_stress_unit(text: str) -> str:
    """Canonical name of a unit of stress; a leading minus stands for VASP's sign."""
    return _parse(text, "stress", STRESS_UNITS)


def parse_force_unit(text: str) -> str:
    """Canonical name of a unit of force, written energy/length."""
    energy, slash, length = text.rpartition("/")
    if not slash:
        raise ConfigError(f"'{text}' is not a unit of force; write it as energy/length, for example eV/Å.")
    return f"{parse_energy_unit(energy)}/{parse_length_unit(length)}"


_PARSERS: dict[str, Callable[[str], str]] = {
    "energy": parse_energy_unit,
    "length": parse_length_unit,
    "forces": parse_force_unit,
    "stress": parse_stress_unit,
}


def force_factor(unit: str) -> float:
    """EV/Å per canonical unit of force."""
    energy, _, length = unit.rpartition("/")
    return ENERGY_UNITS[energy] / LENGTH_UNITS[length]


class Units(Options):
    """Units of data files; `auto` is what the file states, or what its format is known to hold."""

    energy: str = Field(AUTO, description="auto, eV, meV, kcal/mol, kJ/mol, Hartree, or 1 for plain numbers.")
    length: str = Field(AUTO, description="auto, Å, bohr or nm.")
    forces: str = Field(
        AUTO,
        description="auto, or energy/length such as Hartree/bohr; auto is what the file states, else unit of energy "
        "over unit of length.",
    )
    stress: str = Field(
        AUTO,
        description="auto, eV/Å³, GPa, kbar, bar or Hartree/bohr³, positive under tension as in ASE; with a minus "
        "(-kbar) for VASP's sign, positive under compression.",
    )

    @field_validator("energy", mode="before")
    @classmethod
    def _plain_numbers(cls, value: Any) -> Any:
        return "1" if type(value) is int and value == 1 else value  # YAML reads the unit 1 as a number

    @field_validator("energy", "length", "forces", "stress")
    @classmethod
    def _canonical(cls, value: str, info: ValidationInfo) -> str:
        return value.casefold() if value.casefold() == AUTO else _PARSERS[str(info.field_name)](value)


class LabelKeys(Options):
    """Names of the labels in a data file; None is found by itself."""

    energy: str | None = Field(None, description="Key of the total energy.")
    forces: str | None = Field(None, description="Key of the forces.")
    stress: str | None = Field(None, description="Key of the stress.")
    virial: str | None = Field(None, description="Key of the virial (energy units); stress = -virial/volume.")

    @model_validator(mode="after")
    def _one_of_both(self) -> "LabelKeys":
        if self.stress is not None and self.virial is not None:
            raise ValueError(f"keys stress='{self.stress}' and virial='{self.virial}' are both given; give one of them")
        return self


AUTO_UNITS = Units()
AUTO_KEYS = LabelKeys()
