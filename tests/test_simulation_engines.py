"""The sections of docs/simulation-engines.md, each as it stands in a folder of its own."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.io import write
from matplotlib.image import imread

mpl.use("Agg")

PAGE = (Path(__file__).parents[1] / "docs" / "simulation-engines.md").read_text(encoding="utf-8")
SECTIONS = {
    title.strip(): text for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
}

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch_sim")


def command(line: str) -> list[str]:
    """Words of a command, with our own and i-PI's programs as modules of this interpreter."""
    words = shlex.split(line)
    if words[0] == "i-pi":
        source = (
            "import sys; from ipi.engine.simulation import Simulation as S; S.load_from_xml(open(sys.argv[1])).run()"
        )
        return [sys.executable, "-c", source, *words[1:]]
    return [sys.executable, "-m", *words]


def run(section: str) -> str:
    """Run all blocks of a section; what its commands print."""
    names: dict = {}
    output, servers = "", []
    try:
        for language, block in re.findall(r"^```(python)?\n(.*?)^```", SECTIONS[section], re.DOTALL | re.MULTILINE):
            if language:
                exec(compile(block, f"docs/simulation-engines.md, {section}", "exec"), names)
                continue
            for line in block.strip().splitlines():
                if line.endswith("&"):
                    servers.append(subprocess.Popen(command(line[:-1]), stdout=subprocess.DEVNULL))
                    continue
                done = subprocess.run(command(line), capture_output=True, text=True, check=False, timeout=300)
                assert done.returncode == 0, (line, done.stdout[-2000:], done.stderr[-2000:])
                output += done.stdout
        assert all(server.wait(60) == 0 for server in servers)
    finally:
        for server in servers:
            server.kill()
            server.wait()
    return output


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A model for copper like that of the tutorial, after less training."""
    folder = tmp_path_factory.mktemp("copper")
    random, frames = np.random.default_rng(0), []
    for _ in range(60):
        atoms = bulk("Cu", cubic=True, a=3.6)
        atoms.set_cell(atoms.cell @ (np.eye(3) + 0.03 * random.normal(size=(3, 3))), scale_atoms=True)
        atoms.positions += 0.05 * random.normal(size=(4, 3))
        atoms.calc = EMT()
        atoms.get_forces(), atoms.get_stress()
        frames.append(atoms)
    write(folder / "copper.extxyz", frames)
    options = [
        "--out",
        "runs/copper",
        "steps=200",
        "model.preset=default/small",
        "model.channels=16",
        "model.cutoff=4.5",
    ]
    words = [sys.executable, "-m", "cliffordstf", "train", "copper.extxyz", *options]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "runs"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_properties(folder, trained, capsys):
    pytest.importorskip("phonopy", reason="needs pip install 'cliffordstf[properties]'")
    shutil.copytree(trained, "runs")
    output = run("Properties")
    assert "space group     Fm-3m (225)" in output
    assert 3.4 < float(re.search(r"a, b, c = ([\d.]+)", output).group(1)) < 3.8  # EMT: 3.59 Å
    assert "supercell 4 × 4 × 4" in output
    assert "normal modes" in output
    assert imread("copper.png").std() > 0.05
    assert imread("ethanol.png").std() > 0.02
    one, other = map(float, re.search(r"(\d+) GPa from strains, (\d+) GPa", capsys.readouterr().out).groups())
    assert one == pytest.approx(other, rel=0.1)


def test_torch_sim(folder, capsys):
    pytest.importorskip("torch_sim", reason="needs pip install 'cliffordstf[torch-sim]'")
    run("torch-sim")
    low, high = map(float, re.search(r"relaxed energies (\S+) to (\S+) eV", capsys.readouterr().out).groups())
    assert -310.1 < low <= high < -309.8


def test_openmm(folder, capsys):
    pytest.importorskip("openmm", reason="needs pip install 'cliffordstf[openmm]'")
    run("OpenMM")
    assert 100 < int(re.search(r"by the model, (\d+) by", capsys.readouterr().out).group(1)) < 160


def test_ipi(folder):
    pytest.importorskip("ipi", reason="needs pip install 'cliffordstf[ipi]'")
    Path("/tmp/ipi_cliffordstf-ethanol").unlink(
        missing_ok=True
    )  # i-PI's socket, which a server that was killed leaves behind
    assert "evaluations 24; the server has ended" in run("i-PI")
    rows = np.loadtxt("pimd.out")
    assert rows.shape == (6, 3)
    assert ((rows[:, 1] > -310.1) & (rows[:, 1] < -305)).all()


def test_reaction_paths(folder, capsys):
    run("Reaction paths")
    energies = [int(word) for word in re.search(r"path \(meV\) \[(.*)\]", capsys.readouterr().out).group(1).split(",")]
    assert len(energies) == 7
    assert 20 < max(energies[1:-1]) < 120
    assert max(energies[1:-1]) > max(energies[0], energies[-1]) + 10
    assert imread("path.png").std() > 0.02


def test_equation_of_state(folder, trained, capsys):
    shutil.copytree(trained, "runs")
    run("Equation of state")
    printed = capsys.readouterr().out
    assert 3.4 < float(re.search(r"lattice constant ([\d.]+)", printed).group(1)) < 3.8
    assert 50 < int(re.search(r"bulk modulus (\d+)", printed).group(1)) < 300  # EMT: 134 GPa


def test_every_section_has_a_test():
    tested = {"Properties", "torch-sim", "OpenMM", "i-PI", "Reaction paths", "Equation of state"}
    assert set(SECTIONS) == tested
