"""The folders of `bench`: few entries each, and a rule each."""

import ast
from pathlib import Path

import pytest

import cliffordstf.bench

ROOT = Path(cliffordstf.bench.__file__).parent
ROOMS = ("jobs", "literature", "scale", "speed", "studies", "tables")


def test_every_module_is_in_a_room():
    assert sorted(path.name for path in ROOT.iterdir() if path.name != "__pycache__") == ["__init__.py", *ROOMS]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_a_rule_of_one_sentence_and_few_entries(room):
    rule = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8")))
    assert rule is not None
    assert rule.count(".") == 1
    assert len([path for path in (ROOT / room).iterdir() if path.name not in ("__init__.py", "__pycache__")]) <= 12


@pytest.mark.parametrize("room", ROOMS)
def test_tests_mirror_the_room(room):
    modules = {path.stem for path in (ROOT / room).glob("*.py")}
    tests = {path.stem.removeprefix("test_") for path in (Path(__file__).parent / room).glob("test_*.py")}
    assert tests - modules <= {"latex_tables", "paper_transcription"}
