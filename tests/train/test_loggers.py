import logging
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cliffordstf.errors import ConfigError
from cliffordstf.train import loggers
from cliffordstf.train.loggers import GuardedLogger, RunLogger, open_loggers

CONFIG = {"seed": 7, "model": {"preset": "default/small-and-unmistakable"}}


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of whoever runs the tests, and no accounts."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")


def write(opened: list[RunLogger], steps: range, value: float = 0.0) -> None:
    for step in steps:
        for item in opened:
            item.log({"step": step, "train_loss": value + step, "valid_force_cosine": None}, step)
    for item in opened:
        item.close()


def scalars(directory: Path, name: str) -> list[tuple[int, float]]:
    found = EventAccumulator(str(directory / "tensorboard"))
    found.Reload()
    return [(event.step, event.value) for event in found.Scalars(name)]


def offline_runs(directory: Path) -> list[Path]:
    return sorted((directory / "wandb").glob("offline-run-*/run-*.wandb"))


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Ours; W&B has a log of its own."""
    return [record for record in caplog.records if record.name == loggers.__name__]


def points_to(link: Path, path: Path) -> bool:
    try:
        return link.samefile(path)
    except OSError:  # The descriptor that lists the folder is gone.
        return False


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    opened = open_loggers(["tensorboard"], tmp_path / "run", CONFIG)
    write(opened, range(10, 40, 10))
    assert scalars(tmp_path / "run", "train_loss") == [(10, 10.0), (20, 20.0), (30, 30.0)]
    with pytest.raises(KeyError):
        scalars(tmp_path / "run", "valid_force_cosine")


def test_tensorboard_shows_rows_while_the_run_goes_on_and_nan_too(tmp_path: Path) -> None:
    (opened,) = open_loggers(["tensorboard"], tmp_path, CONFIG)
    opened.log({"train_loss": math.nan}, 3)
    ((step, value),) = scalars(tmp_path, "train_loss")
    opened.close()
    assert step == 3
    assert math.isnan(value)


def test_a_resumed_run_replaces_the_steps_it_repeats_in_tensorboard(tmp_path: Path) -> None:
    write(open_loggers(["tensorboard"], tmp_path, CONFIG), range(1, 6))
    write(open_loggers(["tensorboard"], tmp_path, CONFIG), range(4, 8), value=100.0)
    expected = [(1, 1.0), (2, 2.0), (3, 3.0), (4, 104.0), (5, 105.0), (6, 106.0), (7, 107.0)]
    assert scalars(tmp_path, "train_loss") == expected


def written(path: Path, texts: tuple[bytes, ...], seconds: float = 30.0) -> bytes:
    """Content of a file of W&B, which a process of its own writes: on a busy machine some time after the end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not all(text in path.read_bytes() for text in texts):
        time.sleep(0.2)
    return path.read_bytes()


def test_wandb_holds_config_and_rows_offline(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(open_loggers(["wandb"], tmp_path / "run", CONFIG), range(3))
    (path,) = offline_runs(tmp_path / "run")
    texts = (b"train_loss", b"small-and-unmistakable", b"cliffordstf")
    content = written(path, texts)
    for text in texts:
        assert text in content
    assert b"valid_force_cosine" not in content
    assert capfd.readouterr() == ("", "")


def test_a_resumed_run_has_the_same_wandb_id(tmp_path: Path) -> None:
    write(open_loggers(["wandb"], tmp_path, CONFIG), range(3))
    time.sleep(1.1)  # Folders of W&B have their time in seconds in their names.
    write(open_loggers(["wandb"], tmp_path, CONFIG), range(2, 5))
    first, second = offline_runs(tmp_path)
    assert first.name == second.name
    assert first.parent != second.parent
    write(open_loggers(["wandb"], tmp_path / "other", CONFIG), range(1))
    (other,) = offline_runs(tmp_path / "other")
    assert other.name != first.name


def test_both_in_the_order_asked_for_and_each_once(tmp_path: Path) -> None:
    opened = open_loggers(["wandb", "tensorboard", "wandb"], tmp_path, CONFIG)
    write(opened, range(1, 3))
    assert len(opened) == 2
    assert scalars(tmp_path, "train_loss") == [(1, 1.0), (2, 2.0)]
    assert len(offline_runs(tmp_path)) == 1
    assert open_loggers([], tmp_path, CONFIG) == []


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_package_is_named_with_its_command(
    name: loggers.LoggerName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)  # Python's own way to make an import fail.
    with pytest.raises(ConfigError, match=rf"'{name}'.* pip install 'cliffordstf\[{name}\]'"):
        open_loggers(["tensorboard", "wandb"], tmp_path, CONFIG)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_runs_is_not_taken_for_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wandb").mkdir()
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ConfigError, match="pip install"):
        open_loggers(["wandb"], tmp_path, CONFIG)


def test_a_folder_that_cannot_be_written_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "tensorboard").write_text("")
    assert open_loggers(["tensorboard"], tmp_path, CONFIG) == []
    (record,) = warnings_of(caplog)
    assert record.levelno == logging.WARNING
    assert "'tensorboard' cannot be opened" in record.message
    assert "\n" not in record.message


def test_a_full_disk_ends_the_logger_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The open event file becomes the device that is always full."""
    if not Path("/dev/full").exists() or not Path("/proc/self/fd").exists():
        pytest.skip("no /dev/full and /proc on this system")
    (opened,) = open_loggers(["tensorboard"], tmp_path, CONFIG)
    opened.log({"train_loss": 1.0}, 1)
    (events,) = (tmp_path / "tensorboard").iterdir()
    (descriptor,) = [int(link.name) for link in Path("/proc/self/fd").iterdir() if points_to(link, events)]
    with Path("/dev/full").open("wb") as full:
        os.dup2(full.fileno(), descriptor)
    for step in range(2, 5):
        opened.log({"train_loss": 1.0}, step)
    opened.close()
    (record,) = warnings_of(caplog)
    assert "'tensorboard' cannot be written to" in record.message
    assert "No space left" in record.message


def test_an_exception_inside_wandb_ends_the_logger_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (opened,) = open_loggers(["wandb"], tmp_path, CONFIG)
    assert isinstance(opened, GuardedLogger)
    inner = opened._inner
    assert isinstance(inner, loggers.WandbLogger)
    inner.close()  # W&B raises when a finished run is written to.
    for step in range(3):
        opened.log({"train_loss": 1.0}, step)
    opened.close()
    (record,) = warnings_of(caplog)
    assert "'wandb' cannot be written to" in record.message
    assert not opened.is_open


def test_no_credentials_are_one_warning_and_no_question(tmp_path: Path) -> None:
    """Online, in a process that has a terminal and no account."""
    pty = pytest.importorskip("pty")
    code = (
        "from pathlib import Path; from cliffordstf.train.loggers import open_loggers;"
        f"print('opened', open_loggers(['wandb'], Path({str(tmp_path)!r}), {{}}))"
    )
    ours, theirs = pty.openpty()
    environment = {**os.environ, "WANDB_MODE": "online", "HOME": str(tmp_path), "NETRC": str(tmp_path / "none")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment,
        timeout=60,
        check=True,
        text=True,
    )
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert done.stdout == "opened []\n"
    assert shown.count("\n") == 1
    assert "'wandb' cannot be opened" in shown
