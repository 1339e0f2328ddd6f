import pytest
from pydantic import BaseModel, ValidationError

from cliffordstf.data.units import (
    ENERGY_UNITS,
    LENGTH_UNITS,
    STRESS_UNITS,
    LabelKeys,
    Units,
    force_factor,
    parse_force_unit,
)
from cliffordstf.errors import ConfigError


def test_factors_are_the_accepted_constants():
    assert ENERGY_UNITS["kcal/mol"] == pytest.approx(0.0433641, rel=1e-5)
    assert ENERGY_UNITS["kJ/mol"] == pytest.approx(0.01036427, rel=1e-6)
    assert ENERGY_UNITS["Hartree"] == pytest.approx(27.211386, rel=1e-7)
    assert LENGTH_UNITS["bohr"] == pytest.approx(0.529177, rel=1e-6)
    assert 1 / STRESS_UNITS["GPa"] == pytest.approx(160.21766, rel=1e-6)
    assert 1 / STRESS_UNITS["-kbar"] == pytest.approx(-1602.1766, rel=1e-6)
    assert force_factor("Hartree/bohr") == pytest.approx(51.422067, rel=1e-6)


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ({"energy": "EV"}, "eV"),
        ({"energy": "mev"}, "meV"),
        ({"energy": "Kcal/Mol"}, "kcal/mol"),
        ({"energy": "ha"}, "Hartree"),
        ({"energy": "AUTO"}, "auto"),
        ({"length": "Angstrom"}, "Å"),
        ({"length": "A"}, "Å"),
        ({"length": "å"}, "Å"),
        ({"length": "\u212b"}, "Å"),
        ({"length": "Bohr"}, "bohr"),
        ({"stress": "eV/A^3"}, "eV/Å³"),
        ({"stress": "ev/Ang^3"}, "eV/Å³"),
        ({"stress": "gpa"}, "GPa"),
        ({"stress": "-Kbar"}, "-kbar"),
        ({"stress": "-eV/A3"}, "-eV/Å³"),
    ],
)
def test_spelling_does_not_matter(given, canonical):
    units = Units(**given)
    assert getattr(units, next(iter(given))) == canonical


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"energy": "kcal/mole"}, r"'kcal/mole' is not a unit of energy \(did you mean 'kcal/mol'\?\)"),
        ({"length": "furlong"}, "'furlong' is not a unit of length; choose one of Å, bohr, nm"),
        ({"stress": "kbarr"}, r"did you mean 'kbar'\?"),
        ({"energy": "-eV"}, "'-eV' is not a unit of energy"),
        ({"enrgy": "eV"}, r"there is no option 'enrgy' \(did you mean 'energy'\?\)"),
        ({"energy": 3}, "option 'energy' is 3, but it must be text"),
    ],
)
def test_mistakes_name_the_nearest_choice(given, message):
    with pytest.raises(ConfigError, match=message):
        Units(**given)


def test_units_are_frozen():
    with pytest.raises(ValidationError):
        Units().energy = "eV"


def test_force_units():
    assert parse_force_unit("kcal/mol/Ang") == "kcal/mol/Å"
    with pytest.raises(ConfigError, match="energy/length"):
        parse_force_unit("newton")


def test_stress_and_virial_exclude_each_other():
    with pytest.raises(ConfigError, match="both given; give one of them"):
        LabelKeys(stress="a", virial="b")


def test_nested_in_another_config_the_message_survives():
    class Data(BaseModel):
        units: Units = Units()

    assert Data.model_validate({"units": {"energy": "Hartree"}}).units.energy == "Hartree"
    with pytest.raises(ValidationError, match="is not a unit of energy"):
        Data.model_validate({"units": {"energy": "hartre"}})
