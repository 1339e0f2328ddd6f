"""Libraries of the cache are checked before they are loaded."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cliffordstf.host.private import code_folder
from cliffordstf.kernels.native import built
from cliffordstf.kernels.native.build import BuildError, find_compiler, is_whole, seal

NAME = "library.so"
CONTENT = bytes(range(256)) * 40


@pytest.fixture
def target(tmp_path, monkeypatch):
    monkeypatch.setenv("CLIFFORDSTF_CACHE", str(tmp_path / "cache"))
    code_folder.cache_clear()
    yield code_folder(built.FOLDER) / NAME
    code_folder.cache_clear()


@pytest.fixture
def builds(target):
    """How often the library was built; each build makes a whole one."""
    return []


def make(builds):
    def write(target: Path) -> None:
        builds.append(target)
        part = target.with_suffix(".part")
        part.write_bytes(CONTENT)
        seal(part)
        part.replace(target)

    return write


def test_a_library_is_built_once(target, builds):
    for _ in range(3):
        assert built.cached(built.FOLDER, NAME, make(builds)) == target
    assert len(builds) == 1
    assert target.read_bytes().startswith(CONTENT)


@pytest.mark.parametrize("size", [0, 1, 5000, len(CONTENT), len(CONTENT) + 30])
def test_a_library_that_was_cut_off_is_built_anew(target, builds, size, caplog):
    built.cached(built.FOLDER, NAME, make(builds))
    whole = target.read_bytes()
    target.write_bytes(whole[:size])
    with caplog.at_level(logging.WARNING):
        built.cached(built.FOLDER, NAME, make(builds))
    assert len(builds) == 2
    assert target.read_bytes() == whole
    assert "is damaged; it is built anew" in caplog.text


@pytest.mark.parametrize("place", [0, 3000, len(CONTENT), -1])
def test_a_library_with_another_byte_is_built_anew(target, builds, place):
    built.cached(built.FOLDER, NAME, make(builds))
    changed = bytearray(target.read_bytes())
    changed[place] ^= 1
    target.write_bytes(changed)
    built.cached(built.FOLDER, NAME, make(builds))
    assert len(builds) == 2


@pytest.mark.skipif(os.name != "posix", reason="the system has no owners of files")
def test_a_library_of_somebody_else_is_replaced(target, builds, tmp_path):
    planted = tmp_path / "planted.so"
    planted.write_bytes(b"code of somebody else")
    seal(planted)
    target.symlink_to(planted)
    built.cached(built.FOLDER, NAME, make(builds))
    assert len(builds) == 1
    assert not target.is_symlink()
    assert planted.read_bytes().startswith(b"code of somebody else")
    target.chmod(0o666)
    built.cached(built.FOLDER, NAME, make(builds))
    assert len(builds) == 2


def test_a_file_without_a_seal_is_not_whole(tmp_path):
    file = tmp_path / NAME
    assert not is_whole(file)
    file.write_bytes(CONTENT)
    assert not is_whole(file)
    seal(file)
    assert is_whole(file)


def has_compiler() -> bool:
    try:
        return bool(find_compiler())
    except BuildError:
        return False


@pytest.mark.skipif(os.name != "posix" or not has_compiler(), reason="no compiler to orphan")
def test_compilers_end_with_a_process_that_is_killed(tmp_path):
    """A build of 20 seconds must not go on without the process that wanted it."""
    compiler = tmp_path / "slow"
    compiler.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/started\nsleep 60\n")
    compiler.chmod(0o755)
    code = f"from cliffordstf.kernels.native.build import _run\n_run(['{compiler}'], '{tmp_path}')"
    process = subprocess.Popen([sys.executable, "-c", code])
    started = tmp_path / "started"
    waited(lambda: started.exists() and started.read_text().strip())
    number = int(started.read_text())
    process.kill()
    process.wait()
    waited(lambda: not is_running(number))


def is_running(number: int) -> bool:
    """Zombies, which wait for a parent to look at them, do not run."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def waited(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
