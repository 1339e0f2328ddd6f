import importlib.util
import os

import ase.build
import numpy as np
import pytest

from cliffordstf import Calculator, zoo
from cliffordstf.bench.speed import symmetrix_mace


def test_without_the_package_there_is_a_sentence_with_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert "pip install symmetrix-xl==0.1.1" in symmetrix_mace.unavailable()


def test_with_the_package_mace_itself_is_still_needed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    monkeypatch.setattr(zoo, "available", lambda name: f"no {name} here.")
    assert symmetrix_mace.unavailable() == "no mace here."


@pytest.mark.skipif(symmetrix_mace.unavailable() is not None, reason="symmetrix-xl or mace-torch is not installed")
@pytest.mark.skipif("SYMMETRIX_JIT_CACHE" not in os.environ, reason="compiling takes minutes; set SYMMETRIX_JIT_CACHE")
def test_the_exported_model_has_the_forces_of_mace(tmp_path):
    native = ase.build.bulk("Cu", cubic=True).repeat(3)
    native.rattle(0.05, seed=0)
    torch_mace = native.copy()
    native.calc = symmetrix_mace.calculator(symmetrix_mace.export((1, 8, 29), tmp_path))
    options = {"cutoff": symmetrix_mace.CUTOFF, "average_neighbours": symmetrix_mace.NEIGHBOURS}
    torch_mace.calc = Calculator(zoo.build(symmetrix_mace.PEER, (1, 8, 29), seed=0, **options), dtype="float32")
    forces = torch_mace.get_forces()
    np.testing.assert_allclose(native.get_forces(), forces, atol=1e-4 * np.abs(forces).max())
