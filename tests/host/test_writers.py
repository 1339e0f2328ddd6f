"""Everything is written through `host/files.py`, whole or not at all; what is not has its reason here."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "cliffordstf"

METHODS = {"write_text", "write_bytes", "savefig", "copyfile", "copy2"}
"""Calls that write a file under its own name."""

EXCEPTIONS = {
    "host/files.py": "the layer itself",
    "engine/embed.py": "a temporary folder, for the compiler",
    "engine/standalone.py": "the file that write_atomically gives",
    "kernels/native/build.py": "a temporary folder, before a rename; must not import this package",
    "bench/jobs/interpreters.py": "a temporary folder, for another process",
    "bench/scale/large_set.py": "the log of another process",
    "bench/scale/ranks.py": "the log of another process",
    "bench/scale/screening_walk.py": "the file that write_atomically gives, and the log of another process",
    "bench/speed/peak_memory.py": "a switch of the system in /proc",
    "bench/speed/against/worker.py": "a switch of the system in /proc",
    "bench/speed/symmetrix_mace.py": "a temporary folder, for another program",
    "train/loggers.py": "TensorBoard's own event files",
    "cli/screen.py": "a log for people, which a full disk may end",
    "data/fetch/transfer.py": "parts of downloads, which grow and are taken up again",
    "data/fetch/unpack.py": "a stage beside the target, moved when it is complete",
    "data/dataset.py": "the file that write_atomically gives",
    "generate/write.py": "the file that write_atomically gives",
    "simulate/restart.py": "the file that write_atomically gives",
    "screening/plan.py": "the file that write_atomically gives",
    "screening/shard_job.py": "the file that write_atomically gives",
    "data/shards/writing.py": "the folder that write_folder gives",
    "report/properties.py": "the file that write_atomically gives",
    "report/style.py": "memory",
    "report/summary.py": "the file that write_atomically gives",
    "bench/tables/figures.py": "the file that write_atomically gives",
}


def writes(source: str) -> bool:
    """Whether a module opens a file for writing, or calls something that does."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if isinstance(node.func, ast.Attribute) and (name in METHODS or ast.unparse(node.func) == "np.save"):
            return True
        given = [part for arg in [*node.args, *(k.value for k in node.keywords)] for part in ast.walk(arg)]
        modes = [part.value for part in given if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if name == "open" and any(mode[0] in "wxa" and len(mode) < 4 for mode in modes if mode):
            return True
    return False


def test_no_other_file_writes():
    found = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if writes(path.read_text("utf-8"))}
    assert found - set(EXCEPTIONS) == set(), "use write_atomically, write_text or write_json of cliffordstf.host.files"
    assert set(EXCEPTIONS) - found == set(), "these no longer write: take them off the list"


def test_writers_are_found():
    assert writes("path.write_text('a')")
    assert writes("open(path, 'w')")
    assert writes("np.save(path, array)")
    assert writes("path.open(mode='ab')")
    assert not writes("path.open('rb')")
    assert not writes("write_text(path, 'a')")
