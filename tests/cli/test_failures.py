"""What the system refuses is one line, never a traceback."""

import errno
import sys

import pytest

from cliffordstf.cli import main


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "run/train.log"), "run/train.log: No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "model"), "model: Permission denied"),
        (MemoryError(), "the memory does not suffice"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "the memory does not suffice"),
    ],
)
def test_errors_of_the_system_are_one_line(error, said, monkeypatch, capsys):
    def fail() -> None:
        raise error

    monkeypatch.setattr(main, "app", fail)
    monkeypatch.setattr(sys, "argv", ["cliffordstf"])
    with pytest.raises(SystemExit) as end:
        main.run()
    assert end.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("error", [RuntimeError("a mistake of ours"), OSError(errno.EINVAL, "Invalid argument")])
def test_mistakes_of_ours_keep_their_traceback(error, monkeypatch):
    def fail() -> None:
        raise error

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(type(error)):
        main.run()
