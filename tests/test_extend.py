"""The code of docs/extend.md does what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from cliffordstf.errors import ConfigError
from cliffordstf.model import family
from cliffordstf.verify.structures import random_cluster

PAGE = Path(__file__).parents[1] / "docs" / "extend.md"


def code(name: str) -> str:
    (found,) = re.findall(rf"```python {name}\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return found


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(family, "_family_of", dict(family._family_of))
    return tmp_path


def test_a_model_of_ones_own_trains_and_comes_back_from_its_file(elsewhere, clusters):
    assert len(code("model").strip().splitlines()) <= 30
    clusters.rename(elsewhere / "structures.extxyz")
    names = {"potential_input": random_cluster((18,), atoms=5, seed=99, spacing=2.4)}
    exec(code("model"), names)
    quick = code("train").replace("budget=20s", "epochs=150")
    exec(quick, names)
    metrics = names["result"].metrics["validation"]
    assert metrics["force_mae_mev_per_a"] < 0.8 * metrics["baseline_force_mae_mev_per_a"]
    torch.testing.assert_close(
        names["potential"].predict(names["potential_input"]).forces,
        names["result"].potential.predict(names["potential_input"]).forces,
    )
    with pytest.raises(ConfigError, match="already"):
        family.register(family.Family((), lambda: None, family.FamilyConfig, torch.nn.Identity, {"pair": {}}))


def test_the_command_line_takes_a_model_of_ones_own(elsewhere, clusters):
    clusters.rename(elsewhere / "structures.extxyz")
    (elsewhere / "pair.py").write_text(code("model"), encoding="utf-8")
    command = [sys.executable, "-m", "cliffordstf", "train", "structures.extxyz", "model.preset=pair", "epochs=2"]
    environment = {**os.environ, family.OWN: "pair.py"}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)
    assert (elsewhere / "runs" / "structures" / "model.safetensors").is_file()
    unknown = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert unknown.returncode != 0
    assert "'pair'" in " ".join((unknown.stdout + unknown.stderr).split())


@pytest.mark.parametrize(
    ("name", "text"), [("nothing.py", None), ("broken.py", "1 / 0"), ("no_such_module_of_mine", None)]
)
def test_what_cannot_be_imported_is_one_clear_error(name, text, elsewhere, monkeypatch):
    if text is not None:
        Path(name).write_text(text, encoding="utf-8")
    monkeypatch.setenv(family.OWN, f"json, {name}")
    with pytest.raises(ConfigError, match=rf"CLIFFORDSTF_FAMILIES names '{name}', which cannot be imported \("):
        family.find_family("pair")


def test_a_data_set_of_ones_own_is_read_back(elsewhere):
    rng = np.random.default_rng(0)
    folder = elsewhere / "mine"
    folder.mkdir()
    for index in range(3):
        table = np.column_stack([[8, 1, 1], [[0, 0, 0], [0.96, 0, 0], [0, 0.96, 0]], rng.normal(size=(3, 3))])
        np.save(folder / f"frame{index}_{-1.5 * index}.npy", table)
    names = {"folder": folder}
    assert len(code("data").strip().splitlines()) <= 30
    exec(code("data"), names)
    structures = names["structures"]
    assert [frame.energy for frame in structures] == [0.0, -1.5, -3.0]
    np.testing.assert_allclose(structures[2].forces, np.load(folder / "frame2_-3.0.npy")[:, 4:7], atol=1e-7)


def test_the_benchmark_of_the_page_runs(elsewhere, clusters):
    clusters.rename(elsewhere / "mine.extxyz")
    (elsewhere / "pair.py").write_text(code("model"), encoding="utf-8")
    (line,) = re.findall(r"^    cliffordstf (bench own .*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for model in ("default", "pair"):
        words = line.replace("default,pair", model).split()
        command = [sys.executable, "-m", "cliffordstf", *words, "--recipe", model, "budget=null", "epochs=1"]
        environment = {**os.environ, family.OWN: "pair.py"}
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)
    assert sorted(path.name for path in Path("results/own").iterdir()) == [
        f"mine-{model}-1passes-seed{seed}.json" for model in ("default", "pair") for seed in (0, 1)
    ]
