"""Code is loaded only from where nobody else can put it."""

import logging
import os
import subprocess
import sys

import pytest

from cliffordstf.host.private import cache_folder, code_folder, why_untrusted

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the system has no owners of files")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CLIFFORDSTF_CACHE", str(tmp_path / "cache"))
    code_folder.cache_clear()
    yield tmp_path / "cache"
    code_folder.cache_clear()


def test_a_new_folder_belongs_to_this_user_alone(cache):
    folder = code_folder("kernels")
    assert folder == cache / "kernels"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_of_ours_that_others_may_write_to_is_closed(cache):
    (cache / "kernels").mkdir(parents=True)
    (cache / "kernels").chmod(0o777)
    assert code_folder("kernels") == cache / "kernels"
    assert (cache / "kernels").stat().st_mode & 0o022 == 0


def test_a_link_in_place_of_the_folder_is_not_followed(cache, tmp_path, caplog):
    (tmp_path / "elsewhere").mkdir()
    cache.mkdir()
    (cache / "kernels").symlink_to(tmp_path / "elsewhere")
    with caplog.at_level(logging.WARNING):
        folder = code_folder("kernels")
    assert cache not in folder.parents
    assert why_untrusted(folder) is None
    assert "is a link" in caplog.text


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")
def test_a_folder_of_somebody_else_is_not_used(cache, caplog):
    (cache / "kernels").mkdir(parents=True)
    os.chown(cache / "kernels", 65534, 65534)
    with caplog.at_level(logging.WARNING):
        assert code_folder("kernels") != cache / "kernels"
    assert "belongs to user 65534" in caplog.text


def test_a_folder_that_others_could_replace_is_not_used(cache, caplog):
    cache.mkdir()
    cache.chmod(0o777)
    with caplog.at_level(logging.WARNING):
        assert code_folder("kernels") != cache / "kernels"
    assert "can be replaced by other users" in caplog.text


def test_files_that_others_may_write_to_are_not_trusted(tmp_path):
    file = tmp_path / "library.so"
    file.write_bytes(b"code")
    file.chmod(0o644)
    assert why_untrusted(file) is None
    file.chmod(0o666)
    assert why_untrusted(file) == "can be written by other users"


def test_the_package_works_without_a_home(tmp_path):
    """Containers run under numbers that belong to no user."""
    code = "from pathlib import Path\nPath.home = lambda: (_ for _ in ()).throw(RuntimeError('no home'))\n"
    code += "from cliffordstf.host.private import cache_folder\nprint(cache_folder())"
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME", "CLIFFORDSTF_CACHE")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(f"cliffordstf-{os.geteuid()}")


def test_the_cache_can_be_chosen(cache):
    assert cache_folder() == cache
