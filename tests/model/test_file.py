import json
import os
import pickle

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import cliffordstf
from cliffordstf.errors import FileWriteError, ModelFileError
from cliffordstf.host.files import write_atomically
from cliffordstf.model.file import load_model, read_info, save_model
from cliffordstf.model.potential import Potential
from cliffordstf.model.shipped import resolve
from cliffordstf.verify.structures import random_cluster


@pytest.fixture
def potential():
    return cliffordstf.build("default/small", elements=["H", "C", "O"], seed=0, atomic_energies={8: -2042.123456789})


@pytest.fixture
def path(potential, tmp_path):
    return save_model(potential, tmp_path / "model.safetensors", {"level_of_theory": "none", "note": "Å"})


@pytest.mark.parametrize("name", ["default/small", "paper/full", "paper/output-only", "paper/clifford"])
def test_round_trip_is_exact(name, tmp_path):
    potential = cliffordstf.build(
        name, elements=["H", "C", "O"], seed=0, channels=8, atomic_energies={8: -2042.1234567}
    )
    loaded, info = load_model(save_model(potential, tmp_path / "m.safetensors"))
    structure = random_cluster((1, 6, 8))
    assert torch.equal(potential.predict(structure).energy, loaded.predict(structure).energy)
    assert torch.equal(potential.predict(structure).forces, loaded.predict(structure).forces)
    assert info.atomic_energies["O"] == -2042.1234567


def test_metadata(path):
    info = read_info(path)
    assert info.elements == ["H", "C", "O"]
    assert info.config["profile"] == "default"
    assert info.provenance == {"level_of_theory": "none", "note": "Å"}
    with safe_open(path, framework="pt") as stream:
        assert json.loads(stream.metadata()["units"])["forces"] == "eV/Å"


def test_double_precision_survives(potential, tmp_path):
    loaded, _ = load_model(save_model(potential.double(), tmp_path / "m.safetensors"))
    assert next(loaded.parameters()).dtype == torch.float64


@pytest.mark.parametrize("version", [0, 1, 2])
def test_older_format_versions_load(version, tmp_path):
    """No warp until version 2, radial functions of distances alone until 1, another name of the profile in 0."""
    options = {"radial_warp": None, "radial_elements": version == 2}
    plain = cliffordstf.build("default/small", elements=["H", "C", "O"], seed=0, **options)
    path, old = tmp_path / "new.safetensors", tmp_path / "old.safetensors"
    save_model(plain, path)
    with safe_open(path, framework="pt") as stream:
        metadata = dict(stream.metadata())
    config = json.loads(metadata["config"])
    del config["radial_warp"]
    if version < 2:
        del config["radial_elements"]
    if version == 0:
        config["kind"] = config.pop("profile")
    save_file(load_file(path), old, {**metadata, "format_version": str(version), "config": json.dumps(config)})
    loaded, info = load_model(old)
    assert info.format_version == version
    structure = random_cluster((1, 6, 8), atoms=5)
    torch.testing.assert_close(loaded.predict(structure).forces, plain.predict(structure).forces, rtol=0, atol=0)


def rewritten(path, target, **changes):
    with safe_open(path, framework="pt") as stream:
        metadata = {**stream.metadata(), **changes}
    save_file(load_file(path), target, metadata)
    return target


def test_files_that_are_not_ours_are_one_clear_error(path, tmp_path):
    with pytest.raises(ModelFileError, match="format version 99"):
        load_model(rewritten(path, tmp_path / "new.safetensors", format_version="99"))
    with pytest.raises(ModelFileError, match="not a cliffordstf model"):
        load_model(rewritten(path, tmp_path / "other.safetensors", format="something"))
    with pytest.raises(ModelFileError, match="there is no model file"):
        load_model(tmp_path / "none.safetensors")
    truncated = tmp_path / "cut.safetensors"
    truncated.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ModelFileError, match="not a readable safetensors file"):
        load_model(truncated)


class Bomb:
    """Unpickling this would leave a file behind."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_opening_a_pickle_runs_no_code(tmp_path):
    trap = tmp_path / "trap"
    file = tmp_path / "model.pt"
    file.write_bytes(pickle.dumps(Bomb(trap)))
    with pytest.raises(ModelFileError):
        load_model(file)
    assert not trap.exists()


def test_a_failed_write_leaves_the_old_file(path):
    before = path.read_bytes()

    def fail(target) -> None:
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(FileWriteError, match="No space left on device"):
        write_atomically(path, fail)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_foreign_models_cannot_be_saved(tmp_path):
    with pytest.raises(ModelFileError, match="only models built from a cliffordstf config"):
        save_model(Potential(torch.nn.Identity(), (1,), 5.0), tmp_path / "m.safetensors")


def test_names_are_looked_up(path):
    assert resolve(path) == path
    with pytest.raises(ModelFileError, match="neither a model file, the folder of a run nor a shipped model"):
        resolve("no-such-model")
