"""Checksums: of files, of what is published, and of what was fetched before where nothing is.

What was fetched is recorded in `SHA256SUMS` of the data set's folder, in the format that `sha256sum --check` reads.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from cliffordstf.data.fetch.entries import RemoteFile
from cliffordstf.errors import DataError, DownloadError
from cliffordstf.host.files import write_text

RECORD = "SHA256SUMS"
CHUNK = 2**20

Report = Callable[[str, int, int | None], None]
"""Told of progress: what is done, bytes so far, bytes in all if known."""


def silent(what: str, done: int, total: int | None) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Verdict:
    """What a file was compared with, and held.

    Attributes:
        sha256: Of the file.
        against: `published` checksums, the one `recorded` at an earlier fetch, or `nothing`.
        algorithms: Of the published checksums.
    """

    sha256: str
    against: str
    algorithms: tuple[str, ...] = ()


def digests(path: Path, algorithms: Iterable[str], report: Report = silent) -> dict[str, str]:
    """Checksums of a file by algorithm, all in one pass."""
    hashes = {name: hashlib.new(name, usedforsecurity=False) for name in algorithms}
    total, done = path.stat().st_size, 0
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            for item in hashes.values():
                item.update(chunk)
            done += len(chunk)
            report("checking", done, total)
    return {name: item.hexdigest() for name, item in hashes.items()}


def verify(path: Path, file: RemoteFile, known: str | None, report: Report = silent) -> Verdict:
    """Compare a file with its published size and checksums, or else with the SHA-256 of an earlier fetch.

    Args:
        path: The file on disk.
        file: What is published of it.
        known: SHA-256 of an earlier fetch; it counts only where no checksum is published.
        report: Told of progress.

    Raises:
        DownloadError: Something differs; the message has no instruction, which the caller adds.
    """
    size = path.stat().st_size
    if file.size is not None and file.exact and size != file.size:
        raise DownloadError(f"it has {size:,} bytes where {file.size:,} are published")
    published = dict(checksum.split(":", 1) for checksum in file.checksums)
    found = digests(path, {*published, "sha256"}, report)
    for algorithm, expected in published.items():
        if found[algorithm] != expected:
            raise DownloadError(f"its {algorithm} is {found[algorithm]} where {expected} is published")
    if published:
        return Verdict(found["sha256"], "published", tuple(published))
    if known is not None and found["sha256"] != known:
        raise DownloadError(f"its sha256 is {found['sha256']} where {RECORD} has {known} of an earlier fetch")
    return Verdict(found["sha256"], "nothing" if known is None else "recorded")


def recorded(folder: Path) -> dict[str, str]:
    """SHA-256 of what was fetched into a folder, by name.

    Raises:
        DataError: The record is damaged.
    """
    path = folder / RECORD
    if not path.is_file():
        return {}
    lines = [line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not all(len(words) == 2 and len(words[0]) == 64 for words in lines):
        raise DataError(f"{path} is not a list of SHA-256 sums and names; repair or remove it.")
    return {name.removeprefix("*"): digest for digest, name in lines}


def record(folder: Path, name: str, sha256: str) -> None:
    """Add a file to the record of its folder, or change its entry."""
    values = {**recorded(folder), name: sha256}
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(values.items()))
    write_text(folder / RECORD, text)
