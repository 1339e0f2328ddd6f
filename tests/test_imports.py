"""Imports point one way: each room of the package imports only those below it. Read from the source, not run."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "cliffordstf"
PACKAGE = "cliffordstf"

LEAVES = {"errors", "moved", "version"}
TOOLS = LEAVES | {"host", "options"}
MATHEMATICS = TOOLS | {"algebra", "graph", "kernels", "nn"}
MODELS = MATHEMATICS | {"data", "engine", "model"}
TRAINING = MODELS | {"zoo", "train"}

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "moved": set(),
    "version": set(),
    "graph": LEAVES,
    "host": LEAVES,
    "options": LEAVES,
    "datasets": TOOLS,
    "algebra": LEAVES,
    "kernels": TOOLS | {"algebra", "graph"},
    "nn": MATHEMATICS - {"nn"},
    "data": TOOLS | {"algebra", "graph"},
    "engine": MATHEMATICS | {"data"},
    "model": MODELS - {"model"},
    "zoo": MODELS,
    "verify": MODELS | {"zoo"},
    "integrations": MODELS,
    "simulate": MODELS | {"integrations"},
    "screening": MODELS | {"integrations", "simulate"},
    "generate": TOOLS | {"data", "simulate"},
    "train": TRAINING - {"train"},
    "report": TRAINING | {"simulate"},
    "bench": TRAINING | {"integrations", "report", "screening", "simulate", "verify"},
}
"""What each room may import beside itself. `api`, `cli` and the package's front stand on top and may import all."""
TOP = {"api", "cli", "__init__", "__main__"}

LATE = {("train/__init__.py", "api")}
"""Imports upwards inside functions: `cliffordstf.train` can be called, as `cliffordstf.api.train`."""

NATIVE: set[str] = set()
"""Files that import the C++ kernels past the operators that hide them. Only engines should; this list may only get
shorter."""


def imported(source: str) -> Iterator[str]:
    """Dotted names of this package that a module imports anywhere, also late or for type checkers only."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == PACKAGE)


def rooms(source: str) -> set[str]:
    """Rooms that a module imports; dunder names of the package, such as its version, are of no room."""
    found = {name.split(".")[1] for name in imported(source) if "." in name}
    return {room for room in found if not room.startswith("__")}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def wrong_imports(path: Path, source: str) -> set[str]:
    room, file = room_of(path), path.relative_to(ROOT).as_posix()
    late = {target for name, target in LATE if name == file}
    return set() if room in TOP else rooms(source) - ALLOWED[room] - {room} - late


def imports_native(source: str) -> bool:
    return any(f"{name}.".startswith(f"{PACKAGE}.kernels.native.") for name in imported(source))


FILES = sorted(ROOT.rglob("*.py"))


def test_every_room_has_its_rule():
    assert {room_of(path) for path in FILES} <= {*ALLOWED, *TOP}


def test_imports_point_one_way():
    wrong = {path.relative_to(ROOT).as_posix(): wrong_imports(path, path.read_text(encoding="utf-8")) for path in FILES}
    assert {file: found for file, found in wrong.items() if found} == {}


def test_the_rules_themselves_have_no_circles():
    below: set[str] = set()
    waiting = dict(ALLOWED)
    while waiting:
        ready = {room for room, allowed in waiting.items() if allowed <= below}
        assert ready, f"these rooms may import each other: {sorted(waiting)}"
        below |= ready
        waiting = {room: allowed for room, allowed in waiting.items() if room not in ready}


def test_only_engines_import_the_native_kernels():
    users = {
        path.relative_to(ROOT).as_posix()
        for path in FILES
        if room_of(path) not in ("kernels", "engine") and imports_native(path.read_text(encoding="utf-8"))
    }
    assert users - NATIVE == set(), "these go past the operators of cliffordstf.kernels"
    assert NATIVE - users == set(), "these no longer do: take them off the list"


@pytest.mark.parametrize(
    ("file", "source", "wrong"),
    [
        ("data/batch.py", "from cliffordstf.kernels.plan import EdgePlan", {"kernels"}),
        ("data/batch.py", "from cliffordstf.graph import EdgeIndex", set()),
        ("nn/gate.py", "def late():\n    import cliffordstf.data.batch", {"data"}),
        ("nn/gate.py", "from cliffordstf import __version__, kernels, model", {"model"}),
        ("kernels/plan.py", "if TYPE_CHECKING:\n    from cliffordstf.nn.gate import NormGate", {"nn"}),
        (
            "algebra/stf.py",
            "from cliffordstf.errors import DataError\nfrom cliffordstf.graph import EdgeIndex",
            {"graph"},
        ),
        ("train/__init__.py", "from cliffordstf.api import train", set()),
        ("train/loop.py", "from cliffordstf.api import train", {"api"}),
        ("cli/main.py", "import cliffordstf.bench.sweep", set()),
    ],
)
def test_wrong_imports_are_found(file, source, wrong):
    assert wrong_imports(ROOT / file, source) == wrong


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from cliffordstf.kernels.native.kernel import padded", True),
        ("from cliffordstf.kernels import native", True),
        ("import cliffordstf.kernels.native as n", True),
        ("from cliffordstf.kernels import node_bilinear", False),
        ("from cliffordstf.kernels import natives", False),
    ],
)
def test_the_native_kernels_are_found_however_they_are_imported(source, found):
    assert imports_native(source) == found
