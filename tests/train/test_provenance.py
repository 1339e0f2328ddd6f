import subprocess

import pytest

import cliffordstf
from cliffordstf.train.provenance import PACKAGE, command_line, commit


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train", "my.extxyz", "budget=3min"], "train my.extxyz budget=3min"),
        (["bench", "rmd17", "--data", "/home/somebody/data/rmd17/"], "bench rmd17 --data rmd17"),
        (["eval", "runs/my/model.safetensors", "/data/x.xyz"], "eval runs/my/model.safetensors x.xyz"),
        (["train", "data.test=/data/some/test.npz"], "train data.test=test.npz"),
        (
            ["bench", "rmd17", "--data", "../somebody/rmd17", "data.test=../t.npz"],
            "bench rmd17 --data rmd17 data.test=t.npz",
        ),
        (["bench", "--recipe", "paper/full conservative"], "bench --recipe 'paper/full conservative'"),
    ],
)
def test_commands_can_be_typed_again_but_tell_of_no_folders(arguments, expected):
    assert command_line(arguments) == f"cliffordstf {expected}"


def test_the_commit_is_that_of_the_whole_package_and_marks_changes(tmp_path):
    assert list(map(str, cliffordstf.__path__)) == [str(PACKAGE)]

    def git(*arguments: str) -> str:
        options = ["-c", "user.name=name", "-c", "user.email=name@localhost"]
        command = ["git", "-C", str(tmp_path), *options, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert commit(tmp_path) is None
    package = tmp_path / "package"
    (package / "room").mkdir(parents=True)
    for file in (tmp_path / "readme", package / "room" / "code"):
        file.write_text("first")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    first = git("rev-parse", "HEAD")
    assert commit(package) == first
    (tmp_path / "readme").write_text("second")
    assert commit(package) == first
    (package / "room" / "code").write_text("second")
    assert commit(package) == f"{first}+"
