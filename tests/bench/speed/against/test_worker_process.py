import shutil
import subprocess
from pathlib import Path

import pytest

from cliffordstf.bench.speed.against.worker_process import (
    CheckoutError,
    WorkerProcess,
    commit_of,
    own_source,
    source_folder,
)
from cliffordstf.errors import ConfigError

OTHER = """
__file__ = __file__
raise ImportError("this commit is broken")
"""


def test_a_folder_that_is_no_checkout_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match=r"is no checkout of cliffordstf \(it has no src/cliffordstf\); .*worktree"):
        source_folder(tmp_path)


def test_the_folder_of_a_checkout_holds_its_package(tmp_path):
    package = tmp_path / "src" / "cliffordstf"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    assert source_folder(tmp_path) == tmp_path.resolve() / "src"


def test_code_that_cannot_be_imported_is_one_sentence(tmp_path):
    package = tmp_path / "src" / "cliffordstf"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(OTHER, encoding="utf-8")
    with pytest.raises(CheckoutError, match=r"failed at 'hello' \(ImportError: this commit is broken\); check it out"):
        WorkerProcess(source_folder(tmp_path), 1)


def test_a_worker_measures_the_code_that_it_was_given_and_reports_its_failures(tmp_path):
    copy = tmp_path / "src" / "cliffordstf"
    shutil.copytree(own_source() / "cliffordstf", copy, ignore=shutil.ignore_patterns("__pycache__", "models"))
    with WorkerProcess(tmp_path.resolve() / "src", 1) as worker:
        assert Path(worker.ask("hello")["file"]) == copy.resolve() / "__init__.py"
        with pytest.raises(CheckoutError, match=r"failed at 'take' \(.*no-such-file"):
            worker.ask("take", model="no-such-file", structure="no-such-file.xyz")
    assert worker._process.returncode is not None


def test_the_commit_of_a_checkout_is_named_with_its_changes(tmp_path):
    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True)

    assert commit_of(tmp_path) == "unknown"
    git("init")
    (tmp_path / "a.py").touch()
    git("add", "a.py")
    git("commit", "-m", "first")
    assert len(commit_of(tmp_path)) == 40
    (tmp_path / "a.py").write_text("1")
    assert commit_of(tmp_path).endswith("+")
