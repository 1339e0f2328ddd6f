"""Run attacks by the thousand, print a table and write the counts.

python -m tests.attack --minutes 30 --json results/attack/attack.json
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from cliffordstf.train.provenance import describe_run
from cliffordstf.version import __version__
from tests.attack.faults import can_inject, inject
from tests.attack.mutations import mutated
from tests.attack.targets import TARGETS, outcome

CHUNK = 100
MEMORY = 6 << 30
LONGEST = 120.0
"""Seconds for a chunk; a file that takes longer counts as a hang."""


def _chunk(index: int, start: int, pipe: Any) -> None:
    """Attack one target with seeds from `start`; a crash ends this process, and the parent sees where."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    target = TARGETS[index]
    with tempfile.TemporaryDirectory() as folder:
        path = target.make(Path(folder))
        content = path.read_bytes()
        for seed in range(start, start + CHUNK):
            damaged = mutated(content, random.Random(seed))
            path.write_bytes(damaged)
            what = outcome(target, path)
            # What ends behind a whole line of a whole structure is a genuine, shorter file.
            is_start = (damaged + b"\n").replace(b"\n\n", b"\n")[-60:] in content
            pipe.send((seed, "shorter" if what == "lost" and is_start else what))
    pipe.send((-1, "done"))


def mutate(index: int, start: int) -> Counter[str]:
    """Outcomes of a chunk of mutations, with crashes and hangs."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_chunk, args=(index, start, theirs))
    process.start()
    theirs.close()
    counts, end, seed = Counter[str](), time.monotonic() + LONGEST, start
    while time.monotonic() < end:
        try:
            if not ours.poll(0.5):
                if not process.is_alive():
                    raise EOFError
                continue
            seed, what = ours.recv()
        except EOFError:
            counts["crash"] += 1
            print(f"{TARGETS[index].name}: crash after seed {seed}", file=sys.stderr)
            break
        if seed < 0:
            break
        counts[what] += 1
        if what in ("traceback", "lost"):
            print(f"{TARGETS[index].name}: {what} at seed {seed}", file=sys.stderr)
    else:
        counts["hang"] += 1
        print(f"{TARGETS[index].name}: hang after seed {seed}", file=sys.stderr)
    process.kill()
    process.join()
    return counts


def kills(folder: Path, end: float) -> dict[str, int]:
    """SIGKILL, SIGTERM and two interrupts at random moments of a run that is taken up again and again."""
    rng, counts = random.Random(0), Counter[str]()
    target = folder / "run"
    data = str(folder / "data.extxyz")
    small = ["data.valid=4", "model.preset=default/small", "model.channels=4", "model.hidden=4", "batch_size=4"]
    first = ["train", data, *small, "epochs=100000", "checkpoint_minutes=0.0002", "--out", str(target)]
    while time.monotonic() < end:
        again = ["train", "--resume", str(target)] if (target / "config.yaml").is_file() else first
        started = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "cliffordstf", *again], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        time.sleep(rng.uniform(1.5, 9.0))
        how = rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
        counts["ended before"] += process.poll() is not None
        for _ in range(2 if how == signal.SIGINT else 1):
            process.send_signal(how)
        try:
            said = process.communicate(timeout=30)[1]
        except subprocess.TimeoutExpired:  # seen once, and not explained: the signal had no effect
            counts["ignored"] += 1
            process.kill()
            said = process.communicate()[1]
        counts["kills"] += 1
        counts["after the first step"] += time.monotonic() - started > 5
        if "Traceback" in said and "KeyboardInterrupt" not in said:
            counts["tracebacks"] += 1
            print(said[-1000:], file=sys.stderr)
    return dict(counts)


def main() -> None:
    """Attack for the given time, half of it with mutations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=50.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only-mutations", action="store_true", help="The fuzzer alone, for all of the time.")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start, total = time.monotonic(), 60 * options.minutes
    found: dict[str, Any] = {"mutations": {target.name: Counter[str]() for target in TARGETS}}
    turn = options.seed
    while time.monotonic() - start < total * (1.0 if options.only_mutations else 0.5):
        for index, target in enumerate(TARGETS):
            found["mutations"][target.name] += mutate(index, turn * CHUNK)
        turn += 1
    if not options.only_mutations:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            most = max(2, int(total * 0.3 / 100))
            found["faults"] = inject(folder, most, []) if can_inject() else {}
            found["kills"] = kills(folder, start + total)
    found |= {"minutes": round((time.monotonic() - start) / 60, 1), "version": __version__}
    found |= {
        **describe_run(),
        "command": shlex.join(["python", "-m", "tests.attack", *sys.argv[1:]]),
        "seed": options.seed,
        "budget_minutes": options.minutes,
    }
    print(table(found))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    bad = sum(counts[name] for counts in found["mutations"].values() for name in ("lost", "crash", "hang", "traceback"))
    bad += sum(counts["tracebacks"] + counts["lost"] for counts in found.get("faults", {}).values())
    os._exit(1 if bad + found.get("kills", {}).get("tracebacks", 0) else 0)


def table(found: dict[str, Any]) -> str:
    """The counts as Markdown."""
    names = ("opened", "warned", "refused", "shorter", "lost", "traceback", "crash", "hang")
    lines = ["| mutated file | files | " + " | ".join(names) + " |", "|---|" + "---:|" * (len(names) + 1)]
    for target, counts in found["mutations"].items():
        lines.append(
            f"| {target} | {sum(counts.values())} | " + " | ".join(str(counts.get(name, 0)) for name in names) + " |"
        )
    if found.get("faults"):
        lines += ["", "| command | changes of files | faults | stopped | tracebacks | lost |", "|---|" + "---:|" * 5]
        for command, counts in found["faults"].items():
            row = " | ".join(str(counts[name]) for name in ("changes", "faults", "stopped", "tracebacks", "lost"))
            lines.append(f"| {command} | {row} |")
    if "kills" in found:
        lines += ["", f"Kills of one training run: {found['kills']}."]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
