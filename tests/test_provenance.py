import pytest

from cliffordstf.provenance import command_line


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
