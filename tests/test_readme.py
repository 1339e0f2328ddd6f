"""The README's Python runs as it stands, and its files, commands and length are right."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from ase.build import molecule
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import write

from cliffordstf.algebra.couplings import coupling_table

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HOW_TO = (ROOT / "docs" / "use.md").read_text(encoding="utf-8")
MOST_LINES = 170
SHORT = ('budget="20min"', 'budget="2s"')
"""The one change to the code of a page: how long it trains."""


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    """A working directory with the files that the pages name, as a user would have them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, count in (("my.extxyz", 40), ("test.extxyz", 5)):
        frames = []
        for _ in range(count):
            atoms = molecule("CH3CH2OH")
            atoms.positions += rng.normal(0, 0.05, atoms.positions.shape)
            atoms.calc = EMT()
            energy, forces = atoms.get_potential_energy(), atoms.get_forces()
            atoms.calc = SinglePointCalculator(atoms, energy=energy, forces=forces)
            frames.append(atoms)
        write(name, frames)
    write("start.xyz", molecule("CH3CH2OH"))
    return tmp_path


@pytest.mark.parametrize(
    ("page", "block"),
    [
        pytest.param(page, block, id=f"{page}-{number}")
        for page, text in (("README.md", README), ("docs/use.md", HOW_TO))
        for number, block in enumerate(blocks(text), start=1)
    ],
)
def test_python_blocks_run(page, block, data_folder):
    exec(compile(block.replace(*SHORT), page, "exec"), {})


def test_there_are_python_blocks():
    assert len(blocks(README)) == 2
    assert len(blocks(HOW_TO)) == 2


def test_readme_is_short():
    assert len(README.splitlines()) <= MOST_LINES


def test_linked_files_exist():
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def test_footnotes_have_a_text():
    used = set(re.findall(r"(?<!^)\[\^(\w+)\]", README, flags=re.MULTILINE))
    assert used == set(re.findall(r"^\[\^(\w+)\]:", README, flags=re.MULTILINE))


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make ([a-z-]+)", README, flags=re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_extras_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"pip install '(?:\.|cliffordstf)\[([a-z0-9,]+)\]'", README + HOW_TO)
    assert named
    listed = re.findall(r"# extras: ([a-z0-9, ]+)$", README, flags=re.MULTILINE)
    for extra in ",".join(named + listed).replace(" ", "").split(","):
        assert extra in project["optional-dependencies"], extra


def test_coupling_table_is_the_generated_one():
    page = (ROOT / "docs" / "couplings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) ⊗ (\d) → (\d) \| `(.+?)` \| (true|pseudo) \| (\d+) \|$", page, flags=re.MULTILINE)
    expected = [
        (str(c.l1), str(c.l2), str(c.l3), c.name, "pseudo" if c.pseudo else "true", str(len(c.terms)))
        for c in coupling_table(3)
    ]
    assert rows == expected
