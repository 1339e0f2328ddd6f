"""Files of every format load, and give the numbers that they gave when they were written."""

import json

import numpy as np
import pytest
import torch
from ase.build import molecule
from safetensors import safe_open

from cliffordstf.kernels.native.runtime import NativeModel, is_available
from cliffordstf.model.file import FORMAT_VERSION, load_model
from cliffordstf.model.shipped import shipped_models
from cliffordstf.simulate.restart import load_state
from cliffordstf.train.checkpoint import load_checkpoint
from tests.attack.targets import small_potential
from tests.compatibility.make_fixtures import FIXTURES, NUMBERS

FOLDERS = sorted(FIXTURES.iterdir())
formats = pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])


def test_the_present_format_has_its_fixture():
    assert FIXTURES / f"format-{FORMAT_VERSION}" in FOLDERS, "run python -m tests.compatibility.make_fixtures"


@formats
def test_models_give_their_numbers(folder):
    expected = json.loads((folder / NUMBERS).read_text())
    potential, info = load_model(folder / "model.safetensors")
    assert f"format-{info.format_version}" == folder.name
    prediction = potential.double().predict(molecule("H2O"))
    np.testing.assert_allclose(float(prediction.energy), expected["energy"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(prediction.forces, expected["forces"], rtol=1e-7, atol=1e-10)


@formats
def test_checkpoints_and_restarts_load(folder):
    potential = small_potential()
    assert (
        sum(parameter.numel() for parameter in potential.parameters())
        == json.loads((folder / NUMBERS).read_text())["parameters"]
    )
    state = load_checkpoint(folder / "last.ckpt", potential, torch.optim.AdamW(potential.parameters()), None)
    assert state["progress"] == {"step": 1}
    assert load_state(folder / "md.restart.npz").step == 7


@pytest.mark.skipif(not is_available(torch.float32), reason="no runtime for exported models here")
@formats
def test_exported_models_open(folder):
    assert NativeModel((folder / "model.cstf").read_bytes(), torch.float32).operator_names


@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_shipped_models_are_of_older_formats_and_load(name):
    path = shipped_models()[name]
    with safe_open(path, framework="pt") as stream:
        assert int(stream.metadata()["format_version"]) <= FORMAT_VERSION
    assert load_model(path)[0].elements
