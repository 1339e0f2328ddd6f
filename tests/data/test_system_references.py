import pickle

import numpy as np
import pytest
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import write

from cliffordstf.data.load import load_frames
from cliffordstf.data.readers import read_frames
from cliffordstf.data.readers.record import system_id
from cliffordstf.data.system_references import read_system_references, take_off
from cliffordstf.data.units import LabelKeys, Units
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.train.config import DataConfig


def saved(path, content):
    path.write_bytes(pickle.dumps(content))
    return path


def relaxation(path, energies=(-10.0, -11.5)):
    frames = []
    for energy in energies:
        atoms = Atoms("CuO", [[0, 0, 0], [0, 0, 1.9]])
        atoms.calc = SinglePointCalculator(atoms, energy=energy, forces=np.zeros((2, 3)))
        frames.append(atoms)
    write(path, frames)
    return path


def test_systems_are_known_by_their_number():
    assert system_id("random1000100") == 1000100
    assert system_id("random") is None
    assert system_id("relaxation") is None


def test_the_energy_of_a_system_is_taken_off_its_frames(tmp_path):
    path = relaxation(tmp_path / "random12.traj")
    file = saved(tmp_path / "ref.pkl", {"random12": -8.0, "random13": np.float64(1.0), 14: 2.0})
    config = DataConfig(train=str(path), system_reference=str(file))
    frames = load_frames(str(path), config).frames
    assert [frame.id for frame in frames] == [12, 12]
    assert [frame.energy for frame in frames] == pytest.approx([-2.0, -3.5])
    assert read_system_references(file) == {12: -8.0, 13: 1.0, 14: 2.0}


def test_systems_without_a_reference_or_a_name_are_refused(tmp_path):
    path = relaxation(tmp_path / "random12.traj")
    with pytest.raises(DataError, match="no energy for system 12"):
        take_off(read_frames(path, Units(), LabelKeys())[0], {13: 1.0}, "f")
    nameless = relaxation(tmp_path / "run.traj")
    with pytest.raises(ConfigError, match="does not say which it is of"):
        take_off(read_frames(nameless, Units(), LabelKeys())[0], {12: 1.0}, "f")


@pytest.mark.parametrize("content", [[], {}, {"slab 3": 1.0}, {"random3": "low"}, {"random3": float("nan")}])
def test_files_that_hold_anything_else_are_refused(tmp_path, content):
    with pytest.raises(DataError, match=r"ref\.pkl"):
        read_system_references(saved(tmp_path / "ref.pkl", content))
    with pytest.raises(DataError, match="there is no file"):
        read_system_references(tmp_path / "missing.pkl")


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    with pytest.raises(DataError, match="could run code"):
        read_system_references(saved(tmp_path / "ref.pkl", {"random3": print}))


def test_real_references_make_the_adsorption_energies_of_the_shards(real_data):
    folder = real_data / "oc20"
    references = read_system_references(folder / "derived_oc20_ref_165k.pkl")
    shard = str(folder / "derived_s2ef_raw/train/0.extxyz.xz")
    total, _ = read_frames(shard, Units(), LabelKeys())
    adsorption, _ = read_frames(shard, Units(), LabelKeys(energy="adsorption_energy"))
    ours = take_off(total, references, shard)
    assert [frame.energy for frame in ours] == pytest.approx([frame.energy for frame in adsorption], abs=1e-6)
