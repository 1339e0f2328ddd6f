"""Whole runs: what they leave behind, exact restarts, kills, signals, several processes."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from ase import Atoms
from ase.io import read, write
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from cliffordstf.data.batch import Batch
from cliffordstf.errors import ConfigError, DataError, ModelFileError
from cliffordstf.model import family
from cliffordstf.model.family import Family, FamilyConfig, register
from cliffordstf.model.file import load_model
from cliffordstf.model.output import ModelOutput
from cliffordstf.train.config import load_config
from cliffordstf.train.progress import DivergedError
from cliffordstf.train.run import Silence, resume, train
from cliffordstf.train.run_folder import free_directory

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "cliffordstf", *arguments]


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return load_file(directory / "model.safetensors")


def read_history(directory: Path) -> list[dict[str, str]]:
    with (directory / "history.csv").open() as stream:
        return list(csv.DictReader(stream))


def assert_same_weights(first: Path, second: Path) -> None:
    a, b = weights(first), weights(second)
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def test_a_run_leaves_model_metrics_history_and_config(options, tmp_path):
    result = train(load_config(None, options), tmp_path / "run")
    assert result is not None
    assert {path.name for path in result.directory.iterdir()} >= {
        "config.yaml", "history.csv", "last.ckpt", "best.safetensors", "model.safetensors", "metrics.json",
    }  # fmt: skip
    rows = read_history(result.directory)
    assert [int(row["epoch"]) for row in rows] == [row["epoch"] for row in result.history]
    metrics = json.loads((result.directory / "metrics.json").read_text())
    assert metrics["test"]["n_structures"] == 4
    assert metrics["test"]["baseline_force_mae_mev_per_a"] > 0
    potential, info = load_model(result.directory / "model.safetensors")
    assert info.provenance["errors"]["test"]["force_mae_mev_per_a"] == metrics["test"]["force_mae_mev_per_a"]
    assert info.provenance["data"][0]["sha256"]
    assert potential.elements == (18,)


def test_training_learns(options, tmp_path):
    result = train(load_config(None, [*options, "epochs=60", "data.test=4"]), tmp_path / "run")
    metrics = result.metrics["validation"]
    assert metrics["force_mae_mev_per_a"] < 0.5 * metrics["baseline_force_mae_mev_per_a"]


class StopAt(Silence):
    """Sends this process SIGTERM after some updates."""

    def __init__(self, step: int) -> None:
        self.at = step

    def step(self, progress, share, loss) -> None:
        if progress.step == self.at:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("optimizer", ["adam", "amsgrad", "adamw", "muon"])
@pytest.mark.parametrize("stop", [3, 4, 15, 16])
def test_sigterm_and_resume_give_the_uninterrupted_run_bit_for_bit(options, tmp_path, optimizer, stop):
    config = load_config(None, [*options, f"optimizer.name={optimizer}", "schedule.kind=cosine"])
    whole = train(config, tmp_path / "whole")
    assert train(config, tmp_path / "parts", StopAt(stop)) is None
    parts = resume(tmp_path / "parts")
    assert parts is not None
    assert_same_weights(whole.directory, parts.directory)
    drop = ("seconds",)
    clean = [[{k: v for k, v in row.items() if k not in drop} for row in r.history] for r in (whole, parts)]
    assert clean[0] == clean[1]


class Forgetful(nn.Module):
    """Pair energies with dropout: its gradients are random."""

    def __init__(self, config: FamilyConfig) -> None:
        super().__init__()
        self.config = config
        self.network = nn.Sequential(nn.Linear(1, 8), nn.SiLU(), nn.Dropout(0.5), nn.Linear(8, 1))

    def forward(self, batch: Batch, species: torch.Tensor) -> ModelOutput:
        distances = batch.vectors().norm(dim=1, keepdim=True).float()
        energies = self.network(distances)[:, 0] * (1 - distances[:, 0] / self.config.cutoff) ** 2
        return ModelOutput(energies.new_zeros(len(species)).index_add(0, batch.receivers, energies))


def test_dropout_is_that_of_the_seed_and_a_restart_does_not_change_it(options, tmp_path, monkeypatch):
    monkeypatch.setattr(family, "_family_of", dict(family._family_of))
    register(Family((), lambda: None, FamilyConfig, Forgetful, {"forgetful": {}}))
    kept = [option for option in options if not option.startswith("model.")]
    config = load_config(None, [*kept, "model.preset=forgetful"])
    whole = train(config, tmp_path / "whole")
    torch.rand(7)  # what else the process draws has no part in it
    assert train(config, tmp_path / "parts", StopAt(3)) is None
    parts = resume(tmp_path / "parts")
    assert_same_weights(whole.directory, parts.directory)


@pytest.mark.parametrize("says", [True, False])
def test_a_run_whose_defaults_have_changed_is_not_continued_silently(options, tmp_path, says):
    """A warp has no weights, so a checkpoint from before it fits; an old one says nothing, but lies beside a model."""
    run = tmp_path / "run"
    assert train(load_config(None, [*options, "model.radial_warp=null", "validate_every=1"]), run, StopAt(15)) is None
    config = (run / "config.yaml").read_text(encoding="utf-8")
    (run / "config.yaml").write_text(config.replace("  radial_warp: null\n", ""), encoding="utf-8")
    if not says:
        with safe_open(run / "last.ckpt", framework="pt") as stream:
            metadata = dict(stream.metadata())
        state = json.loads(metadata["state"])
        del state["model"]
        save_file(load_file(run / "last.ckpt"), run / "last.ckpt", {**metadata, "state": json.dumps(state)})
    assert (run / "best.safetensors").is_file()
    with pytest.raises(ConfigError, match="is of a model with radial_warp=None, but now its config makes one with"):
        resume(run)
    (run / "config.yaml").write_text(config, encoding="utf-8")
    assert resume(run) is not None


def test_batch_budgets_do_not_disturb_schedule_or_restart(options, tmp_path):
    """With an atom budget a pass has more batches than the batch size says."""
    config = load_config(None, [*options, "max_atoms=5", "epochs=2"])
    shares = []

    class Listener(StopAt):
        def step(self, progress, share, loss) -> None:
            shares.append(share)
            super().step(progress, share, loss)

    whole = train(config, tmp_path / "whole", Listener(0))
    assert shares == sorted(shares)
    assert len(set(shares)) == 32
    assert train(config, tmp_path / "parts", StopAt(10)) is None
    assert_same_weights(whole.directory, resume(tmp_path / "parts").directory)


@pytest.mark.parametrize("stop", [1, 4, 5, 6])
def test_a_run_has_exactly_the_steps_it_was_given(options, tmp_path, stop):
    """Four batches a pass: six updates end within the second, wherever the run was stopped before."""
    shares = []

    class Listener(StopAt):
        def step(self, progress, share, loss) -> None:
            shares.append(share)
            super().step(progress, share, loss)

    config = load_config(None, [*options, "steps=6", "epochs=null", "validate_steps=4"])
    whole = train(config, tmp_path / "whole", Listener(0))
    assert (whole.provenance["steps"], whole.history[-1]["step"]) == (6, 6)
    assert shares == pytest.approx([n / 6 for n in range(1, 7)])
    assert train(config, tmp_path / "parts", StopAt(stop)) is None
    parts = resume(tmp_path / "parts")
    assert parts.provenance["steps"] == 6
    assert_same_weights(whole.directory, parts.directory)
    assert [row["step"] for row in parts.history] == [row["step"] for row in whole.history]


def test_validations_within_a_pass(options, tmp_path):
    """Four batches a pass; where a pass and its part end together there is one validation, not two."""
    changes = ["epochs=2", "validate_every=1", "validate_steps=2"]
    result = train(load_config(None, [*options, *changes]), tmp_path / "run")
    assert [(row["step"], row["epoch"]) for row in result.history] == [(2, 0.5), (4, 1), (6, 1.5), (8, 2)]
    errors = [row["valid_force_mae_mev_per_a"] for row in result.history]
    assert result.metrics["validation"]["force_mae_mev_per_a"] == pytest.approx(min(errors)), "the best weights stay"


def test_official_test_indices_are_never_trained_on(options, tmp_path):
    indices = tmp_path / "index_test.csv"
    indices.write_text("0\n5\n7\n")
    result = train(load_config(None, [*options, f"data.test_indices={indices}", "data.test=0"]), tmp_path / "run")
    assert result.provenance["structures"] == {"train": 17, "validation": 4, "test": 3}


def test_elements_that_cannot_be_learned_are_named(options, tmp_path):
    seen = []

    class Listener(Silence):
        def prepared(self, setup, directory) -> None:
            seen.extend(setup.splits.warnings)

    result = train(load_config(None, [*options, "model.elements=[Kr, Ar, H]"]), tmp_path / "run", Listener())
    assert result.potential.elements == (1, 18, 36)
    assert any("no training structure holds H, Kr" in warning for warning in seen)


def test_plateau_and_patience_need_validation_data(options, tmp_path):
    with pytest.raises(ConfigError, match="need validation data"):
        train(load_config(None, [*options, "data.valid=0", "patience=3"]), tmp_path / "run")


def test_without_validation_the_last_weights_count(options, tmp_path):
    result = train(load_config(None, [*options, "data.valid=0"]), tmp_path / "run")
    assert result.provenance["best_epoch"] == 4


def test_kill_nine_at_random_moments(options, tmp_path):
    """SIGKILL whenever it comes: the resumed run ends with the weights of the uninterrupted one."""
    wanted = int(os.environ.get("CLIFFORDSTF_TEST_KILLS", "3"))
    extra = [*options[1:], f"epochs={40 * wanted}", "checkpoint_minutes=0.0002", "validate_every=7"]
    train(load_config(None, [options[0], *extra]), tmp_path / "whole")
    target = tmp_path / "killed"
    checkpoint = target / "last.ckpt"
    arguments = ["train", options[0].removeprefix("data.train="), *extra, "--out", str(target)]
    rng = random.Random(0)
    kills = 0
    while True:
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        with subprocess.Popen(command(*arguments), env=ENVIRONMENT, stdout=subprocess.DEVNULL) as process:
            while process.poll() is None and (not checkpoint.exists() or checkpoint.stat().st_mtime_ns == before):
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 0.4))
            if process.poll() is not None or kills == wanted:
                assert process.wait() == 0
                break
            process.kill()
        kills += 1
        arguments = ["train", "--resume", str(target)]
    assert kills == wanted
    assert_same_weights(tmp_path / "whole", target)


def test_two_processes_give_the_losses_of_one(options, tmp_path):
    source = options[0].removeprefix("data.train=")
    rest = [*options[1:], "precision=float64"]
    single, double = tmp_path / "single", tmp_path / "double"
    subprocess.run(
        command("train", source, *rest, "--out", str(single)), env=ENVIRONMENT, check=True, capture_output=True
    )
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run(
        [*launcher, "-m", "cliffordstf", "train", source, *rest, "--out", str(double)],
        env=ENVIRONMENT, check=True, capture_output=True,
    )  # fmt: skip
    losses = [[float(row["train_loss"]) for row in read_history(path)] for path in (single, double)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)


def test_budget_counts_training_time(options, tmp_path):
    result = train(load_config(None, [*options, "epochs=null", "budget=1s"]), tmp_path / "run")
    assert 1.0 <= result.provenance["training_seconds"] < 5.0


def test_early_stopping(options, tmp_path):
    config = load_config(
        None, [*options, "epochs=500", "patience=2", "validate_every=1", "optimizer.learning_rate=1e-12"]
    )
    result = train(config, tmp_path / "run")
    assert result.provenance["epochs"] < 50


def relabelled(source: Path, target: Path, energy: bool = False, forces: bool = False) -> Path:
    """The same structures with only some of their labels."""
    images = []
    for atoms in read(source, ":"):
        bare = Atoms(atoms.numbers, atoms.positions)
        if energy:
            bare.info["energy"] = atoms.get_potential_energy()
        if forces:
            bare.arrays["forces"] = atoms.get_forces()
        images.append(bare)
    write(target, images)
    return target


def test_energy_only_and_forces_only_data(options, tmp_path, clusters):
    only_energy = relabelled(clusters, tmp_path / "energy.extxyz", energy=True)
    result = train(load_config(None, [*options, f"data.train={only_energy}"]), tmp_path / "energy")
    assert result.metrics["test"]["force_mae_mev_per_a"] is None
    assert result.metrics["test"]["energy_mae_mev"] is not None
    only_forces = relabelled(clusters, tmp_path / "forces.extxyz", forces=True)
    result = train(load_config(None, [*options, f"data.train={only_forces}"]), tmp_path / "forces")
    assert result.metrics["test"]["energy_mae_mev"] is None
    assert result.metrics["test"]["force_mae_mev_per_a"] is not None


def test_no_labels_at_all_is_an_error(options, tmp_path, clusters):
    bare = relabelled(clusters, tmp_path / "bare.extxyz")
    with pytest.raises(DataError, match="carries an energy or forces"):
        train(load_config(None, [*options, f"data.train={bare}"]), tmp_path / "run")


def test_leaking_test_set_is_reported(options, tmp_path, clusters):
    seen = []

    class Listener(Silence):
        def prepared(self, setup, directory) -> None:
            seen.extend(setup.splits.warnings)

    train(load_config(None, [*options, f"data.test={clusters}"]), tmp_path / "run", Listener())
    assert any("test structures are also in the training set" in warning for warning in seen)


def test_a_run_that_diverges_at_once_says_so(options, tmp_path):
    config = load_config(
        None, [*options, "optimizer.learning_rate=1e30", "optimizer.clip=null", "schedule.warmup_steps=0"]
    )
    with pytest.raises(DivergedError, match=r"lower optimizer\.learning_rate.* no checkpoint yet"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run" / "last.ckpt").exists()


def test_a_run_that_diverges_later_says_where_its_weights_are(options, tmp_path):
    train(load_config(None, [*options, "optimizer.clip=null", "epochs=1"]), tmp_path / "run")
    changes = {"optimizer.learning_rate": 1e30, "epochs": 20, "schedule.kind": "constant"}
    with pytest.raises(DivergedError, match=r"the last checkpoint is .*last\.ckpt"):
        resume(tmp_path / "run", **changes)


def test_damaged_checkpoint_is_one_clear_error(options, tmp_path):
    train(load_config(None, options), tmp_path / "run")
    (tmp_path / "run" / "last.ckpt").write_bytes(b"garbage")
    with pytest.raises(ModelFileError, match="not a readable checkpoint"):
        resume(tmp_path / "run")
    with pytest.raises(ConfigError, match="holds no run"):
        resume(tmp_path / "nothing")


def test_nothing_is_overwritten(tmp_path):
    assert free_directory(tmp_path / "run") == tmp_path / "run"
    (tmp_path / "run").mkdir()
    (tmp_path / "run-2").mkdir()
    assert free_directory(tmp_path / "run") == tmp_path / "run-3"


@pytest.mark.parametrize("name", ["paper/clifford", "paper/full"])
@pytest.mark.parametrize("forces", ["direct", "conservative"])
def test_the_papers_models_train_with_direct_and_conservative_forces(options, tmp_path, name, forces):
    model = {"preset": name, "channels": 4, "hidden": 4, "heads": 2, "layers": 2, "forces": forces}
    changed = [f"model.{key}={value}" for key, value in model.items()]
    if name == "paper/full":
        changed.append("model.routing=static")
    result = train(load_config(None, [*options, *changed, "epochs=3"]), tmp_path / "run")
    assert result.potential.force_mode == forces
    assert result.metrics["test"]["force_mae_mev_per_a"] > 0
