from importlib import import_module

import pytest

from cliffordstf.model.ensemble import Ensemble
from cliffordstf.moved import MOVED


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_every_old_name_gives_what_is_at_the_new_place_and_names_it(old, new):
    module, _, name = old.rpartition(".")
    with pytest.warns(DeprecationWarning, match=f"^{old} is now {new}; the old name will be removed.$"):
        found = getattr(import_module(module), name)
    place, _, new_name = new.rpartition(".")
    assert found is vars(import_module(place))[new_name]


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_the_warning_shows_the_line_of_the_import(old, new, tmp_path):
    module, _, name = old.rpartition(".")
    user = tmp_path / "user.py"
    user.write_text(f"import {module}\nfrom {module} import {name} as found\n")
    names: dict = {}
    with pytest.warns(DeprecationWarning, match=new) as caught:
        exec(compile(user.read_text(), user, "exec"), names)
    assert isinstance(names["found"], type)
    assert {(warning.filename, warning.lineno) for warning in caught} == {(str(user), 2)}


def test_a_committee_is_an_ensemble():
    with pytest.warns(DeprecationWarning, match="Ensemble"):
        from cliffordstf.model.committee import Committee  # noqa: PLC0415 - it warns
    assert Committee is Ensemble


def test_names_that_never_were_are_errors():
    for module in {old.rpartition(".")[0] for old in MOVED}:
        with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Comittee'"):
            _ = import_module(module).Comittee
