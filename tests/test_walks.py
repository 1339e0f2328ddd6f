"""The walks of docs/walks.md, block by block, with shorter training."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

PAGE = (Path(__file__).parents[1] / "docs" / "walks.md").read_text(encoding="utf-8")
SHORTER = (("--budget 3min", "steps=500"), ("--budget 1min", "steps=100"), ("--steps 2000", "--steps 200"))


def test_every_block_runs_as_it_stands(tmp_path, monkeypatch, capsys, recwarn):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    output = ""
    for language, block in re.findall(r"```(python)?\n(.*?)```", PAGE, flags=re.DOTALL):
        if language:
            exec(compile(block, "docs/walks.md", "exec"), names)
            continue
        for long, short in SHORTER:
            block = block.replace(long, short)  # noqa: PLW2901
        for command in block.strip().splitlines():
            done = subprocess.run(
                [sys.executable, "-m", *shlex.split(command)], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
            output += done.stdout
    printed = capsys.readouterr().out
    assert "fine-tuned from rmd17-ethanol (H C O" in output
    assert "mean density" in output
    assert "residual stress" in output
    assert "ensemble spread: forces" in output
    lattice = float(re.search(r"lattice constant ([\d.]+) Å", printed).group(1))
    assert 3.5 < lattice < 3.75  # EMT copper: 3.59 Å at rest
    highest = float(re.search(r"highest frequency ([\d.]+) THz", printed).group(1))
    assert 6 < highest < 9.5
    stretch = float(re.search(r"O-H stretch (\d+) 1/cm", printed).group(1))
    assert 3300 < stretch < 3900
    assert Path("phonons.png").stat().st_size > 10_000
    predicted = Path("predicted.extxyz").read_text()
    assert "nn_forces:R:3" in predicted
    assert "nn_energy_std=" in predicted
