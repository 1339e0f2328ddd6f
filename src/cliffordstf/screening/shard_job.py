"""A shard of structures as a job: done once, written whole or not at all."""

import csv
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ase.io import write

from cliffordstf.data.options import ReadOptions
from cliffordstf.data.readers import Source
from cliffordstf.data.shards.pieces import Piece, read_pieces
from cliffordstf.data.shards.stored import label_counts
from cliffordstf.data.shards.writing import write_shard
from cliffordstf.host.files import write_atomically
from cliffordstf.host.memory import resident_memory_mb
from cliffordstf.screening.task import Processed, Task

Output = Literal["extxyz", "shards"]
MOST_SOURCES = 20
"""Files of a shard whose keys and units its result repeats."""
STRUCTURES, ROWS = "structures.extxyz", "rows.csv"


@dataclass(frozen=True)
class ShardJob:
    """Does a task with the structures of a shard.

    Attributes:
        number: Of the shard.
        pieces: Where its structures are.
        task: What to do.
        reading: How to read them.
        plan: Digest of the plan that it belongs to.
        shards: Folder of shards to write to; None writes extended XYZ into the job's folder.
    """

    number: int
    pieces: tuple[Piece, ...]
    task: Task
    reading: ReadOptions
    plan: str
    shards: Path | None = None

    @property
    def name(self) -> str:
        """Names its folder and its result."""
        return f"{self.number:06d}"

    @property
    def labels(self) -> dict[str, Any]:
        """What it is a result of."""
        return {"shard": self.number, "plan": self.plan}

    def settings(self) -> dict[str, Any]:
        """Nothing: the plan says it all."""
        return {}

    def run(self, directory: Path, watcher: object) -> dict[str, Any] | None:  # noqa: ARG002 - part of being a job
        """Process the structures; what came out is written when all of it is there."""
        started = time.perf_counter()
        loaded = read_pieces(self.pieces, self.reading, keep_atoms=True)
        frames = loaded.frames
        rows: list[dict[str, Any]] = []
        summary = None
        processed = self._listed(self.task(frames), rows)
        if self.shards is None:
            write_atomically(directory / STRUCTURES, lambda target: _write_extxyz(target, processed))
        else:
            summary = asdict(write_shard(self.shards / self.name, [item.frame for item in processed]))
        write_atomically(directory / ROWS, lambda target: self._write_rows(target, rows))
        return {
            "structures": len(frames),
            "atoms": sum(len(frame.structure) for frame in frames),
            "converged": sum(bool(row.get("converged", True)) for row in rows),
            "seconds": round(time.perf_counter() - started, 4),
            "peak_memory_mb": round(resident_memory_mb(is_peak=True), 1),
            "labels": label_counts(frames),
            "sources": [as_json(source) for source in loaded.sources[:MOST_SOURCES]],
            "summary": summary,
        }

    def _listed(self, processed: Iterator[Processed], rows: list[dict[str, Any]]) -> Iterator[Processed]:
        for item in processed:
            rows.append(dict(item.row))
            yield item

    def _write_rows(self, target: Path, rows: list[dict[str, Any]]) -> None:
        with target.open("w", newline="", encoding="utf-8") as stream:
            csv.DictWriter(stream, self.task.columns, restval="", lineterminator="\n").writerows(rows)


def as_json(source: Source) -> dict[str, Any]:
    """What a file turned out to be, as plain values."""
    values = {name: getattr(source, name) for name in ("format", "units", "keys", "warnings", "has_forces")}
    return {"path": str(source.path), **values}


def _write_extxyz(target: Path, processed: Iterator[Processed]) -> None:
    with target.open("w", encoding="utf-8") as stream:
        for item in processed:
            write(stream, item.atoms, format="extxyz")
