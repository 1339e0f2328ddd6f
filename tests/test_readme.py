"""The README's Python runs as it stands, and what it says of files and commands is true."""

import re
from pathlib import Path

from cliffordstf.algebra.couplings import coupling_table

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})


def test_linked_files_exist():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([a-z-]+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_coupling_table_is_the_generated_one():
    rows = re.findall(r"^\| (\d) ⊗ (\d) → (\d) \| `(.+?)` \| (true|pseudo) \| (\d+) \|$", README, flags=re.MULTILINE)
    expected = [
        (str(c.l1), str(c.l2), str(c.l3), c.name, "pseudo" if c.pseudo else "true", str(len(c.terms)))
        for c in coupling_table(3)
    ]
    assert rows == expected
