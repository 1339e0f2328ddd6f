"""Runs side by side whose mean is judged."""

import json

import ase.io
import numpy as np
import pytest
from ase.build import molecule
from ase.calculators.emt import EMT

from cliffordstf.bench.jobs.sweep import Sweep
from cliffordstf.bench.jobs.training_job import TrainingJob
from cliffordstf.bench.studies.ensemble import APART, ensemble_job
from cliffordstf.model.ensemble import Ensemble
from cliffordstf.model.file import load_model
from cliffordstf.train.config import load_config


@pytest.fixture
def job(tmp_path):
    images = []
    for seed in range(14):
        atoms = molecule("CH3OH")
        atoms.rattle(0.05, seed=seed)
        atoms.calc = EMT()
        atoms.get_forces()
        images.append(atoms)
    ase.io.write(tmp_path / "train.extxyz", images[:10])
    ase.io.write(tmp_path / "test.extxyz", images[10:])
    options = [
        *(f"data.{part}={tmp_path / part}.extxyz" for part in ("train", "test")),
        *("data.valid=0", "model.preset=default/small", "model.channels=4", "epochs=2", "seed=3"),
    ]
    return TrainingJob("methanol", {"benchmark": "rmd17", "recipe": "default"}, load_config(None, options))


def test_members_differ_in_their_seed_alone(job):
    pair = ensemble_job(job, 2)
    first, second = (member.config for member in pair.members)
    assert (first.seed, second.seed) == (3, 3 + APART)
    assert first == second.model_copy(update={"seed": 3})
    assert pair.labels["recipe"] == "2 x default"
    assert pair.name == "methanol-x2"


def test_the_result_is_that_of_the_mean(job, tmp_path):
    pair = ensemble_job(job, 2)
    sweep = Sweep(tmp_path / "results", tmp_path / "work")
    assert sweep.run([pair], lambda text: None).is_done
    found = json.loads(sweep.result_file(pair).read_text())
    members = found["members"]
    assert [values["seed"] for values in members] == [3, 3 + APART]
    assert members[0]["force_mae_mev_per_a"] != members[1]["force_mae_mev_per_a"]
    assert found["committee"] == 2
    assert found["commit"]
    potential = Ensemble(
        [load_model(tmp_path / "work" / pair.name / f"member{k}" / "model.safetensors")[0] for k in (0, 1)]
    )
    frames = ase.io.read(tmp_path / "test.extxyz", ":")
    errors = [potential(potential.members[0].batch(atoms)).forces.numpy() - atoms.get_forces() for atoms in frames]
    assert found["metrics"]["force_mae_mev_per_a"] == pytest.approx(1e3 * np.abs(errors).mean(), rel=1e-5)
    # Nothing is done twice.
    sweep.result_file(pair).unlink()
    said = []
    assert sweep.run([pair], said.append).is_done
    assert json.loads(sweep.result_file(pair).read_text())["members"] == members
