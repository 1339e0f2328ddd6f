"""The shards of a run: planned once, done in any order by any number of processes, joined in the order of the input."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cliffordstf.data.options import ReadOptions
from cliffordstf.data.readers import Source
from cliffordstf.data.readers.detect import expand
from cliffordstf.data.readers.extxyz import Part
from cliffordstf.data.shards.layout import LABELS, SUFFIX, is_shards, summary_from, write_index
from cliffordstf.data.shards.pieces import Piece, split
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.host.files import lock, write_atomically, write_json
from cliffordstf.screening.shard_job import ROWS, STRUCTURES, ShardJob
from cliffordstf.screening.task import Task

PLAN = "plan.json"


@dataclass(frozen=True)
class Totals:
    """What all shards together hold.

    Attributes:
        structures, atoms: How many.
        converged: Structures that were relaxed to the limit; all, where none were relaxed.
        seconds: Of all shards, s.
        peak_memory_mb: Largest memory of a process that did a shard.
        labels: Structures of the input with energy, forces and stress.
        sources: What the files turned out to be.
        warnings: What the user should know of them.
    """

    structures: int
    atoms: int
    converged: int
    seconds: float
    peak_memory_mb: float
    labels: dict[str, int]
    sources: list[Source]
    warnings: list[str]


@dataclass(frozen=True)
class Plan:
    """Files, and what becomes of them.

    Attributes:
        task: What to do with every structure.
        files: Files, folders, patterns.
        reading: How to read them.
        size: Structures of a shard.
        out: extxyz file to write, or a folder of shards if it ends with `.shards`.
        work: Folder of the shards that are done, until they are joined.
        table: CSV file to write, one row a structure.
    """

    task: Task
    files: tuple[str, ...]
    reading: ReadOptions
    size: int
    out: Path
    work: Path
    table: Path | None = None

    @property
    def writes_shards(self) -> bool:
        """Whether shards are written rather than extended XYZ."""
        return self.out.suffix == SUFFIX

    @property
    def results(self) -> Path:
        """Folder of the results of jobs."""
        return self.work / "results"

    def jobs(self) -> list[ShardJob]:
        """The shards as jobs; the places of structures are found once and kept in the work folder.

        Raises:
            ConfigError: The work folder belongs to something else, or the shards are written already.
        """
        if self.writes_shards and is_shards(self.out):
            raise ConfigError(f"{self.out} is a complete set of shards already; remove it, or name another folder.")
        description = json.loads(json.dumps(self._describe(), default=str))
        digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:16]
        file = self.work / PLAN
        if file.is_file():
            values = json.loads(file.read_text(encoding="utf-8"))
            self._check(values["of"], description)
        else:
            shards = [[_as_json(piece) for piece in shard] for shard in split(self.files, self.size, self.reading)]
            values = {"of": description, "shards": shards}
            write_json(file, values)
        folder = self.out if self.writes_shards else None
        return [
            ShardJob(number, tuple(map(_piece, shard)), self.task, self.reading, digest, folder)
            for number, shard in enumerate(values["shards"])
        ]

    def _describe(self) -> dict[str, Any]:
        """Everything that the shards depend on."""
        found = [file for path in self.files for file in expand(Path(path).expanduser())]
        return {
            "task": self.task.describe(),
            "reading": self.reading.model_dump(mode="json"),
            "structures in a shard": self.size,
            "output": str(self.out) if self.writes_shards else "extxyz",
            "files": [[str(file), *_stamp(file)] for file in found],
        }

    def _check(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        other = [name for name in now if before.get(name) != now[name]]
        if other:
            raise ConfigError(
                f"{self.work} holds shards that were made with another {' and '.join(other)}; remove it to begin "
                "again, or name another folder with --work."
            )

    def missing(self, jobs: Sequence[ShardJob]) -> list[ShardJob]:
        """Shards that are not done."""
        return [job for job in jobs if not (self.results / f"{job.name}.json").is_file()]

    def join(self, jobs: Sequence[ShardJob]) -> Totals | None:
        """Write the output from all shards, in order; None if another process is doing so.

        Raises:
            DataError: A shard is not there.
        """
        missing = self.missing(jobs)
        if missing:
            raise DataError(f"{len(missing)} of {len(jobs)} shards are missing in {self.work}; run the command again.")
        with lock(self.work / "join.lock") as held:
            if not held:
                return None
            found = [json.loads((self.results / f"{job.name}.json").read_text(encoding="utf-8")) for job in jobs]
            if self.table is not None:
                write_atomically(self.table, lambda target: self._join_rows(target, jobs))
            if self.writes_shards:
                self._remove_leftovers({job.name for job in jobs})
                write_index(self.out, [summary_from(result["summary"]) for result in found])
            else:
                write_atomically(self.out, lambda target: _join(target, self._parts(jobs, STRUCTURES), ""))
        sources = _distinct([_source(values) for result in found for values in result["sources"]])
        return Totals(
            labels={label: sum(result["labels"][label] for result in found) for label in LABELS},
            sources=sources,
            warnings=[*dict.fromkeys(w for source in sources for w in source.warnings), *_differing_keys(sources)],
            structures=sum(result["structures"] for result in found),
            atoms=sum(result["atoms"] for result in found),
            converged=sum(result["converged"] for result in found),
            seconds=sum(result["seconds"] for result in found),
            peak_memory_mb=max(result["peak_memory_mb"] for result in found),
        )

    def _remove_leftovers(self, names: set[str]) -> None:
        """Remove shards of an earlier plan, and the parts of shards that a killed process left in the folder."""
        for folder in self.out.iterdir():
            number = folder.name.removeprefix(".").partition(".")[0]
            if folder.is_dir() and number.isdigit() and folder.name not in names:
                shutil.rmtree(folder, ignore_errors=True)

    def clear(self) -> None:
        """Remove what is no longer needed."""
        shutil.rmtree(self.work, ignore_errors=True)

    def _parts(self, jobs: Sequence[ShardJob], name: str) -> Iterator[Path]:
        return (self.work / "jobs" / job.name / name for job in jobs)

    def _join_rows(self, target: Path, jobs: Sequence[ShardJob]) -> None:
        _join(target, self._parts(jobs, ROWS), ",".join(self.task.columns) + "\n")


def _source(values: dict[str, Any]) -> Source:
    return Source(**{**values, "path": Path(values["path"]), "warnings": tuple(values["warnings"])})


def _distinct(sources: Sequence[Source]) -> list[Source]:
    """Each file once for every way in which its parts were read."""
    return list(
        {(str(source.path), *source.keys.values(), *source.units.values()): source for source in sources}.values()
    )


def _differing_keys(sources: Sequence[Source]) -> list[str]:
    """Warnings about labels that parts of a file have under different keys."""
    lines = []
    for path in dict.fromkeys(source.path for source in sources):
        for label in LABELS:
            used = {source.keys[label] for source in sources if source.path == path} - {None}
            if len(used) > 1:
                names = ", ".join(sorted(map(str, used)))
                lines.append(
                    f"parts of {path} hold the {label} under different keys ({names}); name the one that you mean with "
                    f"--key-{label}."
                )
    return lines


def _join(target: Path, parts: Iterator[Path], header: str) -> None:
    with target.open("wb") as stream:
        stream.write(header.encode())
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, stream)


def _stamp(path: Path) -> tuple[int, int]:
    """Size and time of a file, by which one that has changed is known; nothing for a package."""
    if not path.exists():
        return 0, 0
    files = [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]
    status = [file.stat() for file in files if not file.name.endswith(("lock.mdb", "-lock"))]
    return sum(item.st_size for item in status), max((item.st_mtime_ns for item in status), default=0)


def _as_json(piece: Piece) -> list[Any]:
    part = piece.part
    place = None if part is None else [part.first, part.count, part.begin, part.end]
    return [str(piece.path), piece.name, piece.is_labelled, place]


def _piece(values: list[Any]) -> Piece:
    path, name, is_labelled, place = values
    return Piece(Path(path), name, None if place is None else Part(*place), is_labelled)
