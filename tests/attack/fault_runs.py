"""Commands whose n-th change of a file fails, and what the same folder gives when they are run again.

Runs under the library of `faults.c`: a process that has imported everything forks one child for every fault.

    LD_PRELOAD=faults.so python -m tests.attack.fault_runs FOLDER MOST [COMMAND ...]
"""

import ctypes
import hashlib
import io
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.build import molecule
from ase.io import read, write
from safetensors.numpy import load_file

from cliffordstf import datasets
from cliffordstf.cli.main import run as command_line
from cliffordstf.data.load import load_frames
from cliffordstf.data.options import ReadOptions

FULL, BROKEN, KILL = 1, 2, 3
MODES = {"full disk": FULL, "I/O error": BROKEN, "kill": KILL}
MODEL = "ethanol-gfn2"


@dataclass(frozen=True)
class Command:
    """A command and the one that takes it up again.

    Attributes:
        first: Arguments, given the folder.
        again: Arguments after a fault, given the folder as the fault left it.
        result: What must be the same as without a fault.
        earlier: Commands that make the state before.
    """

    first: Callable[[Path], list[str]]
    again: Callable[[Path], list[str]]
    result: Callable[[Path], str]
    earlier: tuple[Callable[[Path], list[str]], ...] = ()


def _train(folder: Path) -> list[str]:
    options = ["data.valid=4", "model.preset=default/small", "model.channels=4", "model.hidden=4", "batch_size=4"]
    return ["train", str(folder.parent / "data.extxyz"), *options, "epochs=2", "--out", str(folder / "run")]


def _resume(folder: Path, epochs: int) -> list[str]:
    return ["train", "--resume", str(folder / "run"), "--epochs", str(epochs)]


def _train_again(folder: Path) -> list[str]:
    return _resume(folder, 2) if (folder / "run" / "config.yaml").is_file() else _train(folder)


def _weights(folder: Path) -> str:
    tensors = load_file(folder / "run" / "model.safetensors")
    return hashlib.sha256(b"".join(tensors[name].tobytes() for name in sorted(tensors))).hexdigest()


def _md(folder: Path, steps: int, *more: str) -> list[str]:
    files = ["--trajectory", folder / "md.extxyz", "--log", folder / "md.csv", "--restart", folder / "md.npz"]
    start = str(folder.parent / "start.xyz")
    return ["md", MODEL, start, "--steps", str(steps), "--interval", "2", *map(str, files), *more]


def _md_again(folder: Path) -> list[str]:
    return _md(folder, 12, "--resume" if (folder / "md.npz").is_file() else "--overwrite")


def _trajectory(folder: Path) -> str:
    frames = read(folder / "md.extxyz", ":")
    rows = (folder / "md.csv").read_text().splitlines()
    assert isinstance(frames, list)
    return f"{[frame.info['step'] for frame in frames]} {np.round(frames[-1].positions, 6).tolist()} {rows[-1][:40]}"


def _relax(folder: Path) -> list[str]:
    return ["relax", MODEL, str(folder.parent / "start.xyz"), "--out", str(folder / "relaxed.extxyz")]


def _relaxed(folder: Path) -> str:
    found = read(folder / "relaxed.extxyz")
    assert isinstance(found, Atoms)
    return str(np.round(found.positions, 6).tolist())


def _predict(folder: Path) -> list[str]:
    return ["predict", MODEL, str(folder.parent / "data.extxyz"), "--out", str(folder / "predicted.extxyz")]


def _predicted(folder: Path) -> str:
    return str([round(frame.energy or 0.0, 6) for frame in load_frames(folder / "predicted.extxyz").frames])


def _evaluate(folder: Path) -> list[str]:
    return ["eval", MODEL, str(folder.parent / "data.extxyz"), "--json", str(folder / "errors.json")]


def _errors(folder: Path) -> str:
    return str(len(json.loads((folder / "errors.json").read_text())["sets"]))


COMMANDS = {
    "train": Command(_train, _train_again, _weights),
    "resume": Command(lambda folder: _resume(folder, 3), lambda folder: _resume(folder, 3), _weights, (_train,)),
    "md": Command(lambda folder: _md(folder, 12), _md_again, _trajectory),
    "md --resume": Command(
        lambda folder: _md(folder, 12, "--resume"), _md_again, _trajectory, (lambda folder: _md(folder, 7),)
    ),
    "relax": Command(_relax, _relax, _relaxed),
    "predict": Command(_predict, _predict, _predicted),
    "eval --json": Command(_evaluate, _evaluate, _errors),
}


def in_child(arguments: list[str], arm: Callable[[], object] = lambda: None) -> tuple[int, str]:
    """Run the command line in a child; its exit code, negative for a signal, and what it printed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said, code = io.StringIO(), 1
        try:
            sys.argv = ["cliffordstf", *arguments]
            with redirect_stdout(said), redirect_stderr(said):
                arm()
                command_line()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except BaseException as error:  # what a user would see as a traceback
            said.write(f"Traceback {type(error).__name__}: {error}")
        os.write(writing, said.getvalue().encode()[-60000:])
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        text = stream.read().decode(errors="replace")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def _fresh(work: Path, command: Command) -> None:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    for earlier in command.earlier:
        code, text = in_child(earlier(work))
        assert code == 0, text


def _changes(library: ctypes.CDLL, work: Path, command: Command) -> int:
    """How often the command changes files."""
    counted = work.parent / "count"

    def arm() -> None:
        library.fault_arm(str(work).encode(), 0, 0)

    def write_count() -> None:
        counted.write_text(str(library.fault_count()))

    child = os.fork()
    if child == 0:
        sys.argv = ["cliffordstf", *command.first(work)]
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            arm()
            with suppress(SystemExit):
                command_line()
            write_count()
        os._exit(0)
    os.waitpid(child, 0)
    return int(counted.read_text())


def attack(library: ctypes.CDLL, folder: Path, name: str, most: int) -> dict[str, int]:
    """Let changes of a command fail, evenly spread; counts of what came of it.

    Args:
        library: That of faults.c.
        folder: To work in.
        name: Of the command.
        most: Faults of each mode.
    """
    command, work, counts = COMMANDS[name], folder / "work", Counter[str]()
    _fresh(work, command)
    state = folder / "state"
    shutil.rmtree(state, ignore_errors=True)
    shutil.copytree(work, state)
    changes = _changes(library, work, command)
    expected = command.result(work)
    places = sorted({1 + round(index * (changes - 1) / max(1, most - 1)) for index in range(min(most, changes))})
    for mode, number in MODES.items():
        for place in places:
            shutil.rmtree(work)
            shutil.copytree(state, work)

            def arm(number: int = number, place: int = place) -> None:
                library.fault_arm(str(work).encode(), number, place)

            code, text = in_child(command.first(work), arm)
            where = f"{name}, {mode} at change {place} of {changes}"
            counts["faults"] += 1
            counts["stopped"] += code != 0
            if "Traceback" in text or (number != KILL and code not in (0, 2)):
                counts["tracebacks"] += 1
                print(
                    f"{name}, {mode} at change {place} of {changes}: exit code {code}: {text[-400:]}", file=sys.stderr
                )
            try:
                code, text = in_child(command.again(work))
                found = command.result(work) if code == 0 else text[-400:]
            except Exception as error:
                found = f"{type(error).__name__}: {error}"
            if found != expected:
                counts["lost"] += 1
                print(f"{where}: then {found[:400]}", file=sys.stderr)
    return {"changes": changes, **{key: counts[key] for key in ("faults", "stopped", "tracebacks", "lost")}}


def main() -> None:
    """Attack the commands that are named, or all, and print the counts as JSON."""
    folder, most, *names = sys.argv[1:]
    library = ctypes.CDLL(None)
    library.fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long]
    library.fault_count.restype = ctypes.c_long
    frames = load_frames(datasets.path("ethanol_gfn2"), ReadOptions(limit=24), keep_atoms=True).frames
    write(Path(folder) / "data.extxyz", [frame.atoms for frame in frames])
    write(Path(folder) / "start.xyz", molecule("CH3CH2OH"))
    found = {name: attack(library, Path(folder), name, int(most)) for name in names or COMMANDS}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
