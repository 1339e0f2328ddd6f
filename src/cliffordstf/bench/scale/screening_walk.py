"""Many structures through `predict`, in one process and on Ray with a worker killed: what came out, speed, memory."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
from ase.io import write

from cliffordstf.bench.jobs.sweep import SweepError, read_results
from cliffordstf.bench.tables.formatting import titled
from cliffordstf.bench.tables.table import Table
from cliffordstf.data.load import load_frames
from cliffordstf.data.readers.atoms import labelled_atoms
from cliffordstf.data.readers.extxyz import parts
from cliffordstf.host.files import last_holder, write_atomically
from cliffordstf.host.memory import resident_memory_mb
from cliffordstf.train.provenance import describe_run, file_digest
from cliffordstf.train.run import Watcher

Where = Literal["one process", "Ray"]
KILL_AT = 0.3
"""Share of the shards that are done when a worker is killed."""


@dataclass(frozen=True)
class ScreeningJob:
    """One walk.

    Attributes:
        where: In one process, or on a Ray cluster of this machine.
        model: Model file or name of a shipped model.
        source: Structures that are repeated and rattled.
        structures: How many are made.
        shard_size: Structures of a shard.
        rattle: Å, standard deviation of the displacements.
        seed: Of the displacements.
    """

    where: Where
    model: str
    source: Path
    structures: int
    shard_size: int
    rattle: float = 0.02
    seed: int = 0

    @property
    def name(self) -> str:
        """Safe for a file name."""
        return f"screening-{self.structures}-{self.where.replace(' ', '-').lower()}"

    @property
    def labels(self) -> dict[str, Any]:
        """What the walk is of."""
        return {
            "benchmark": "screening",
            "where": self.where,
            "model": Path(self.model).stem,
            "frames": self.source.name,
            "structures": self.structures,
            "shard_size": self.shard_size,
        }

    def settings(self) -> dict[str, Any]:
        """Its labels say everything."""
        return {}

    def run(self, directory: Path, watcher: Watcher | None) -> dict[str, Any]:  # noqa: ARG002 - nothing to watch
        """Make the structures, run the command and look at what it leaves."""
        source = directory.parent / f"structures-{self.structures}.extxyz"
        if not source.is_file():
            write_atomically(source, self._write_structures)
        out, work = directory / "predicted.extxyz", directory / "shards"
        words = [self.model, source, "--out", out, "--work", work, "--shard-size", self.shard_size]
        words += ["--ray", "local"] if self.where == "Ray" else []
        command = [sys.executable, "-m", "cliffordstf", "predict", *map(str, words)]
        directory.mkdir(parents=True, exist_ok=True)
        started = time.perf_counter()
        with (directory / "log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            killed, memory = self._watch(process, work)
        seconds = time.perf_counter() - started
        if process.returncode:
            raise SweepError(f"predict ended with exit code {process.returncode}; see {directory / 'log'}.")
        shards = read_results(work / "results")
        by_end = [shard["peak_memory_mb"] for shard in shards]
        tenth = max(1, len(by_end) // 10)
        return {
            **describe_run(),
            "seconds": round(seconds, 2),
            "found": sum(part.count for part in parts(out, 10**9)),
            "structures_per_s": round(self.structures / seconds, 2),
            "shards": len(shards),
            "killed": killed,
            "memory_mb": {"first_tenth": median(by_end[:tenth]), "last_tenth": median(by_end[-tenth:])},
            "memory_of_the_command_mb": round(memory, 1),
            "input_mb": round(source.stat().st_size / 1e6, 1),
            "output_mb": round(out.stat().st_size / 1e6, 1),
            "output_sha256": file_digest(out),
        }

    def _write_structures(self, target: Path) -> None:
        frames = load_frames(str(self.source)).frames
        generator = np.random.default_rng(self.seed)
        with target.open("w", encoding="utf-8") as stream:
            for index in range(self.structures):
                atoms = labelled_atoms(frames[index % len(frames)])
                atoms.calc = None
                atoms.positions += self.rattle * generator.standard_normal(atoms.positions.shape)
                write(stream, atoms, format="extxyz")

    def _watch(self, process: "subprocess.Popen[bytes]", work: Path) -> tuple[int, float]:
        """Kill a worker once, on Ray; how many were, and the peak memory of the command's own process, MB."""
        total, killed, memory = -(-self.structures // self.shard_size), 0, 0.0
        while process.poll() is None:
            memory = max(memory, peak_memory_mb_of(process.pid))
            done = sum(1 for _ in work.glob("results/*.json"))
            if self.where == "Ray" and not killed and done >= KILL_AT * total:
                victim = next(workers_at_work(work), None)
                if victim is not None:
                    os.kill(victim, signal.SIGKILL)
                    killed += 1
            time.sleep(0.05)
        return killed, memory


def workers_at_work(work: Path) -> Iterator[int]:
    """Processes that are at a shard of a work folder."""
    for file in work.glob("jobs/*.lock"):
        holder = last_holder(file)
        if holder and not (work / "results" / f"{file.stem}.json").is_file():
            yield int(holder.split()[-1])


def peak_memory_mb_of(process: int) -> float:
    """Largest resident memory so far of another process, MiB; 0 where the system does not report it."""
    found = resident_memory_mb(is_peak=True, process=process)
    return 0.0 if math.isnan(found) else found


def screening_table(results: Sequence[dict[str, Any]]) -> Table:
    """Walks side by side."""
    chosen = sorted(results, key=lambda result: (result["structures"], result["where"] != "one process"))
    table = Table(
        titled("Screening: rattled structures through `predict`, start-up and joining included", chosen),
        [
            "where",
            "structures",
            "in the output",
            "workers killed",
            "s",
            "structures/s",
            "x one process",
            "worker's memory after a tenth, MiB",
            "… at the end, MiB",
            "input, MB",
            "output as of one process",
        ],
    )
    for result in chosen:
        single = next((r for r in chosen if r["where"] == "one process" and _same_work(r, result)), None)
        table.add(
            result["where"],
            f"{result['structures']:,}",
            f"{result['found']:,}",
            str(result["killed"]),
            f"{result['seconds']:.0f}",
            f"{result['structures_per_s']:.0f}",
            "" if single is None else f"{result['structures_per_s'] / single['structures_per_s']:.2f}",
            f"{result['memory_mb']['first_tenth']:.0f}",
            f"{result['memory_mb']['last_tenth']:.0f}",
            f"{result['input_mb']:.0f}",
            "" if single is None else "bit for bit" if result["output_sha256"] == single["output_sha256"] else "NO",
        )
    return table


def _same_work(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one[name] == other[name] for name in ("structures", "frames", "model", "shard_size"))
