"""Builds the library of `faults.c` and runs `fault_runs.py` under it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("faults.c")
ROOT = Path(__file__).parents[2]


def can_inject() -> bool:
    """Whether this system loads libraries before its own, and has a compiler for one."""
    return sys.platform == "linux" and shutil.which("cc") is not None


def inject(folder: Path, most: int, commands: list[str]) -> dict[str, dict[str, int]]:
    """Counts by command.

    Args:
        folder: To work in.
        most: Faults of each mode.
        commands: Names; none stands for all.
    """
    library = folder / "faults.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    command = [sys.executable, "-m", "tests.attack.fault_runs", str(folder), str(most), *commands]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    print(done.stderr, file=sys.stderr)
    found: dict[str, dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return found
