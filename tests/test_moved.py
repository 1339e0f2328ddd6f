from importlib import import_module

import pytest
import torch

from cliffordstf.model.build import build
from cliffordstf.model.compiled import CompiledPotential
from cliffordstf.model.ensemble import Ensemble
from cliffordstf.moved import MOVED
from cliffordstf.verify.structures import random_cluster


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
    assert callable(names["found"])
    assert {(warning.filename, warning.lineno) for warning in caught} == {(str(user), 2)}


def test_a_committee_is_an_ensemble():
    with pytest.warns(DeprecationWarning, match="Ensemble"):
        from cliffordstf.model.committee import Committee  # noqa: PLC0415 - it warns
    assert Committee is Ensemble


def test_names_that_never_were_are_errors():
    for module in {old.rpartition(".")[0] for old in MOVED}:
        with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Comittee'"):
            _ = import_module(module).Comittee


def test_a_compiled_potential_is_one_on_the_traced_engine():
    potential = build("default", elements=[1, 8], seed=0, channels=4, lmax=1, layers=1)
    with pytest.warns(DeprecationWarning, match=r"is now potential.use\('traced'\)"):
        old = CompiledPotential(potential, backend="eager")
    batch = old.batch(random_cluster((1, 8), atoms=5, seed=0))
    torch.testing.assert_close(old(batch).forces, potential(batch).forces, rtol=1e-4, atol=1e-5)
