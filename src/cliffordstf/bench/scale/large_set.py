"""A data set larger than memory: trained for some steps in less memory than its files have bytes."""

import csv
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cliffordstf.bench.jobs.sweep import SweepError
from cliffordstf.bench.scale.screening_walk import peak_memory_mb_of
from cliffordstf.bench.tables.formatting import titled
from cliffordstf.bench.tables.table import Table
from cliffordstf.data.frame import Frame
from cliffordstf.data.load import load_frames
from cliffordstf.data.shards.layout import is_shards, write_index
from cliffordstf.data.shards.writing import write_shard
from cliffordstf.data.structure import Structure
from cliffordstf.train.provenance import describe_run
from cliffordstf.train.run import Watcher

SHARD = 1000
OPTIONS = (
    "model.preset=default/small",
    "data.valid=20",
    "validate_every=1000000",
    "batch_size=4",
    "data.reference=mean",
)


@dataclass(frozen=True)
class LargeSetJob:
    """Some steps of training on rattled copies of structures, with their labels: cost, no accuracy.

    Attributes:
        source: Labelled structures that are repeated and rattled.
        structures: How many are made.
        steps: Updates.
        in_memory: Read the set into memory, for comparison.
        rattle: Å, standard deviation of the displacements.
    """

    source: Path
    structures: int
    steps: int
    in_memory: bool = False
    rattle: float = 0.02

    @property
    def name(self) -> str:
        """Safe for a file name."""
        return f"large-set-{self.structures}-{'memory' if self.in_memory else 'disk'}"

    @property
    def labels(self) -> dict[str, Any]:
        """What is trained on."""
        return {
            "benchmark": "large set",
            "frames": self.source.name,
            "structures": self.structures,
            "steps": self.steps,
            "in_memory": self.in_memory,
        }

    def settings(self) -> dict[str, Any]:
        """Its labels say everything."""
        return {}

    def run(self, directory: Path, watcher: Watcher | None) -> dict[str, Any]:  # noqa: ARG002 - nothing to watch
        """Make the set, train on it in a process of its own and look at its memory."""
        folder = directory.parent / f"set-{self.structures}.shards"
        if not is_shards(folder):
            self._write(folder)
        directory.mkdir(parents=True, exist_ok=True)
        run = directory / f"run-{time.time_ns()}"
        words = [f"steps={self.steps}", f"data.in_memory={str(self.in_memory).lower()}", *OPTIONS]
        command = [sys.executable, "-m", "cliffordstf", "train", str(folder), "--out", str(run), *words]
        started, peak = time.perf_counter(), 0.0
        with (directory / "log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            while process.poll() is None:
                peak = max(peak, peak_memory_mb_of(process.pid))
                time.sleep(0.02)
        if process.returncode:
            raise SweepError(f"train ended with exit code {process.returncode}; see {directory / 'log'}.")
        with (run / "history.csv").open(encoding="utf-8") as stream:
            last = list(csv.DictReader(stream))[-1]
        return {
            **describe_run(),
            "seconds": round(time.perf_counter() - started, 2),
            "steps_done": int(last["step"]),
            "ms_per_step": round(1000 * float(last["seconds"]) / int(last["step"]), 3),
            "peak_memory_mb": round(peak, 1),
            "set_mb": round(sum(file.stat().st_size for file in folder.rglob("*.npy")) / 2**20, 1),
            "options": list(OPTIONS),
        }

    def _write(self, folder: Path) -> None:
        frames = load_frames(str(self.source)).frames
        generator = np.random.default_rng(0)
        summaries = []
        for first in range(0, self.structures, SHARD):
            numbers = range(first, min(first + SHARD, self.structures))
            shard = [self._rattled(frames[number % len(frames)], generator) for number in numbers]
            summaries.append(write_shard(folder / f"{first // SHARD:06d}", shard))
        write_index(folder, summaries)

    def _rattled(self, frame: Frame, generator: np.random.Generator) -> Frame:
        old = frame.structure
        moved = old.positions + self.rattle * generator.standard_normal(old.positions.shape)
        return replace(frame, structure=Structure(old.numbers, moved, old.cell, old.pbc, old.name))


def large_set_table(results: Sequence[dict[str, Any]]) -> Table:
    """Memory of training beside the size of the set."""
    chosen = sorted(results, key=lambda result: (result["structures"], result["in_memory"]))
    table = Table(
        titled("Training on sets in shards, `default/small`; memory: of the whole process, at its peak", chosen),
        ["structures", "read", "files, MiB", "memory, MiB", "memory / files", "steps", "ms a step", "s in all"],
    )
    for result in chosen:
        table.add(
            f"{result['structures']:,}",
            "into memory" if result["in_memory"] else "by number",
            f"{result['set_mb']:.0f}",
            f"{result['peak_memory_mb']:.0f}",
            f"{result['peak_memory_mb'] / result['set_mb']:.2f}",
            str(result["steps_done"]),
            f"{result['ms_per_step']:.1f}",
            f"{result['seconds']:.0f}",
        )
    return table
