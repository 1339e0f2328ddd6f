"""Shards are done once, whatever becomes of the processes that do them."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.io import read, write
from typer.testing import CliRunner

import cliffordstf
from cliffordstf.cli.main import app
from cliffordstf.data.load import load_frames
from cliffordstf.errors import ConfigError, UnknownElementError
from cliffordstf.host.files import holder_name, last_holder, lock
from cliffordstf.model.file import save_model

RUNNER = CliRunner()


@pytest.fixture
def model(tmp_path) -> Path:
    potential = cliffordstf.build("default/small", elements=["H", "C", "O", "Si"], seed=0, channels=8)
    return save_model(potential, tmp_path / "model.safetensors")


def write_structures(path: Path, count: int) -> Path:
    kinds = [molecule("CH3CH2OH"), bulk("Si", cubic=True), molecule("H2O"), Atoms("O")]
    images = [kinds[index % len(kinds)].copy() for index in range(count)]
    for index, atoms in enumerate(images):
        atoms.rattle(0.05, seed=index)
    write(path, images)
    return path


def predict(*words: object, process: bool = False) -> "subprocess.Popen[bytes]":
    arguments = [str(word) for word in words]
    if process:
        command = [sys.executable, "-m", "cliffordstf", "predict", *arguments]
        return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True)
    result = RUNNER.invoke(app, ["predict", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result  # type: ignore[return-value]


def wait_for(condition, seconds: float = 120.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.005)
    raise AssertionError("nothing happened")


def working(work: Path) -> list[int]:
    """Processes that are at a shard now."""
    shards = {file: last_holder(file) for file in work.glob("jobs/*.lock")}
    free = {file for file in shards if (work / "results" / f"{file.stem}.json").is_file()}
    return [int(holder.split()[-1]) for file, holder in shards.items() if holder and file not in free]


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_a_worker_that_is_killed_changes_nothing(model, tmp_path):
    source = write_structures(tmp_path / "in.extxyz", 3000)
    words = [model, source, "--shard-size", 25, "--csv"]
    predict(*words, tmp_path / "one.csv", "--out", tmp_path / "one.extxyz")
    out = tmp_path / "two.extxyz"
    work = tmp_path / "two.extxyz.work"
    command = predict(*words, tmp_path / "two.csv", "--out", out, "--workers", 2, process=True)
    wait_for(lambda: len(list(work.glob("results/*.json"))) > 5)
    victim = wait_for(lambda: working(work))[0]
    assert victim != command.pid
    os.kill(victim, signal.SIGKILL)
    done = len(list(work.glob("results/*.json")))
    assert done < 120, "the worker was killed too late to tell"
    assert command.wait(timeout=120) == 0
    assert out.read_bytes() == (tmp_path / "one.extxyz").read_bytes()
    assert (tmp_path / "two.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert not work.exists()
    with (tmp_path / "two.csv").open() as stream:
        names = [row["structure"] for row in csv.DictReader(stream)]
    assert names[0].startswith("in.extxyz, frame 0")
    assert len(set(names)) == len(names) == 3000


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_what_was_done_before_a_kill_is_not_done_again(model, tmp_path):
    source = write_structures(tmp_path / "in.extxyz", 2000)
    predict(model, source, "--out", tmp_path / "one.extxyz", "--shard-size", 20)
    out, work = tmp_path / "two.extxyz", tmp_path / "work"
    words = [model, source, "--out", out, "--shard-size", 20, "--work", work]
    command = predict(*words, process=True)
    wait_for(lambda: len(list(work.glob("results/*.json"))) > 3)
    os.killpg(command.pid, signal.SIGKILL)
    command.wait()
    before = {file.name: file.stat().st_mtime_ns for file in work.glob("results/*.json")}
    assert 3 < len(before) < 100
    assert not out.exists()
    assert f"{len(before)} of 100 shards were done before" in predict(*words).output
    after = {file.name: file.stat().st_mtime_ns for file in work.glob("results/*.json")}
    assert len(after) == 100
    assert before.items() <= after.items()
    assert out.read_bytes() == (tmp_path / "one.extxyz").read_bytes()


def test_shards_are_a_data_set_with_the_results_as_labels(model, tmp_path):
    source = write_structures(tmp_path / "in.extxyz", 10)
    predict(model, source, "--out", tmp_path / "out.extxyz")
    folder = tmp_path / "out.shards"
    predict(model, source, "--out", folder, "--shard-size", 3)
    for atoms, frame in zip(read(tmp_path / "out.extxyz", ":"), load_frames(folder).frames, strict=True):
        assert frame.energy == pytest.approx(atoms.get_potential_energy(), abs=1e-7)
        np.testing.assert_allclose(frame.forces, atoms.get_forces(), atol=1e-7)
        assert (frame.stress is not None) == ("stress" in atoms.calc.results)
    with pytest.raises(ConfigError, match="is a complete set of shards already"):
        predict(model, source, "--out", folder)


def test_shards_of_something_else_are_not_taken(model, tmp_path):
    source = write_structures(tmp_path / "in.extxyz", 10)
    words = [model, source, "--out", tmp_path / "out.extxyz", "--work", tmp_path / "work"]
    predict(*words, "--shard-size", 4)
    with pytest.raises(ConfigError, match="made with another structures in a shard"):
        predict(*words, "--shard-size", 5)
    with pytest.raises(ConfigError, match="made with another task"):
        predict(*words, "--shard-size", 4, "--dtype", "float32")
    write_structures(source, 11)
    with pytest.raises(ConfigError, match="made with another files"):
        predict(*words, "--shard-size", 4)


def test_the_first_bad_structure_ends_a_single_process_and_is_named(model, tmp_path):
    source = tmp_path / "in.extxyz"
    write(source, [molecule("H2O")] * 5 + [molecule("NH3")])
    words = [model, source, "--out", tmp_path / "out.extxyz", "--shard-size", 2]
    with pytest.raises(UnknownElementError, match="frame 5 holds N"):
        predict(*words)
    assert not (tmp_path / "out.extxyz").exists()
    assert (tmp_path / "out.extxyz.work").exists(), "two shards are done and serve again"


def test_slurm_needs_a_folder_that_stays(model, tmp_path):
    source = write_structures(tmp_path / "in.extxyz", 2)
    with pytest.raises(ConfigError, match="--work"):
        predict(model, source, "--slurm", "--time=1")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_tasks_of_slurm_share_the_shards_and_the_last_one_joins_them(model, tmp_path):
    """The script that is submitted runs here, for two tasks at once, by stand-ins for sbatch and srun."""
    source = write_structures(tmp_path / "in.extxyz", 200)
    predict(model, source, "--out", tmp_path / "one.extxyz", "--shard-size", 20)
    tools = tmp_path / "bin"
    tools.mkdir()
    tasks = 'for i in 1 2; do SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=$i sh "$1" > "$1.$i" 2>&1 & done; wait'
    for name, line in (("sbatch", tasks), ("srun", 'exec "$@"')):
        (tools / name).write_text(f"#!/bin/sh\n{line}\n")
        (tools / name).chmod(0o755)
    out, work = tmp_path / "two.extxyz", tmp_path / "work"
    words = [model, source, "--out", out, "--work", work, "--shard-size", 20, "--workers", 2, "--slurm", "--time=1"]
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "cliffordstf", "predict", *map(str, words)]
    subprocess.run(command, env=environment, check=True, timeout=120)
    assert out.read_bytes() == (tmp_path / "one.extxyz").read_bytes()
    said = "".join(file.read_text() for file in (work / "jobs").glob("sweep.sbatch.*"))
    assert "200 structures with" in said


def test_every_structure_is_relaxed(model, tmp_path):
    source = tmp_path / "in.extxyz"
    images = [molecule("H2O") for _ in range(5)]
    for index, atoms in enumerate(images):
        atoms.rattle(0.05, seed=index)
    write(source, images)
    out, table = tmp_path / "out.extxyz", tmp_path / "out.csv"
    words = ["relax", model, source, "--all", "--out", out, "--csv", table, "--shard-size", 2, "--fmax", 0.05]
    result = RUNNER.invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    with table.open() as stream:
        rows = list(csv.DictReader(stream))
    relaxed = read(out, ":")
    assert len(rows) == len(relaxed) == 5
    for row, atoms in zip(rows, relaxed, strict=True):
        assert (row["converged"] == "True") == (np.linalg.norm(atoms.get_forces(), axis=1).max() < 0.05)
        assert float(row["energy_ev"]) == pytest.approx(atoms.get_potential_energy(), abs=1e-7)
    assert f"{sum(row['converged'] == 'True' for row in rows)} converged" in result.output
    refused = RUNNER.invoke(app, ["relax", str(model), str(source), "--workers", "2"])
    assert isinstance(refused.exception, ConfigError)


def test_locks_name_their_holder(tmp_path):
    with lock(tmp_path / "a.lock") as held:
        assert held
        assert last_holder(tmp_path / "a.lock") == holder_name(os.getpid())
    assert last_holder(tmp_path / "b.lock") is None
