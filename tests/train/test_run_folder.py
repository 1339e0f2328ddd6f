"""The folder of a run: one process at a time, and the data it began with."""

import subprocess
import sys

import pytest
from ase.io import read, write

from cliffordstf.errors import ConfigError, FileWriteError
from cliffordstf.train.config import load_config
from cliffordstf.train.run import resume, train
from cliffordstf.train.run_folder import LOCK, held, replace_run


@pytest.fixture
def run(options, tmp_path):
    train(load_config(None, [*options, "epochs=1"]), tmp_path / "run")
    return tmp_path / "run"


HOLD = """
import sys, time
from pathlib import Path
from cliffordstf.train.run_folder import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_processes_do_not_write_to_one_folder(run):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(run)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        for action in (lambda: resume(run, epochs=2), lambda: replace_run(run)):
            with pytest.raises(ConfigError, match="another process goes on with"):
                action()
        other.kill()
    assert resume(run, epochs=2) is not None  # the lock went with its process


def test_a_folder_that_cannot_be_locked_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileWriteError, match="cannot write"), held(tmp_path / "file" / "run"):
        pass


def test_a_run_is_not_continued_with_other_labels(run, clusters):
    before = (run / "last.ckpt").read_bytes()
    frames = read(clusters, ":")
    for frame in frames:
        frame.calc.results["energy"] += 1.0
    write(clusters, frames)
    with pytest.raises(ConfigError, match=r"training and validation data are not those.*--accept-changed-data"):
        resume(run, epochs=2)
    assert (run / "last.ckpt").read_bytes() == before
    assert resume(run, accept_changed_data=True, epochs=2) is not None
    assert resume(run, epochs=3) is not None  # from here on these are the data of the run


def test_the_lock_is_no_obstacle_for_what_looks_at_the_folder(run):
    assert (run / LOCK).is_file()
    replace_run(run, check_only=True)
