"""Fetch the files of a data set: what is there is checked and skipped, what was begun goes on."""

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cliffordstf.data.fetch.checksums import RECORD, Report, Verdict, record, recorded, silent, verify
from cliffordstf.data.fetch.entries import DataSet, RemoteFile
from cliffordstf.data.fetch.mirror import addresses
from cliffordstf.data.fetch.transfer import discard, transfer
from cliffordstf.data.fetch.unpack import is_unpacked, unpack
from cliffordstf.errors import ConfigError, DownloadError, FileWriteError
from cliffordstf.host.files import lock
from cliffordstf.options.text import did_you_mean

State = Literal["missing", "begun", "archive", "there"]
"""Nothing is there; some of it; an archive that is not unpacked; everything."""


@dataclass(frozen=True)
class Outcome:
    """What became of a file.

    Attributes:
        file: Which.
        fetched: Whether it was; otherwise it was there.
        verdict: What it was compared with; None for data whose archive is gone.
        ours: False for what this command has not fetched itself; it is never removed.
        links: Links of the archive that were left out.
    """

    file: RemoteFile
    fetched: bool
    verdict: Verdict | None
    ours: bool = True
    links: int = 0


def chosen_files(dataset: DataSet, parts: Sequence[str] = ()) -> list[RemoteFile]:
    """Files of these parts, or of the default ones.

    Raises:
        ConfigError: There is no such part.
    """
    for part in parts:
        if part not in dataset.parts:
            raise ConfigError(
                f"{dataset.name} has no part '{part}'{did_you_mean(part, dataset.parts)}; it has "
                f"{', '.join(dataset.parts)}."
            )
    return [file for part in parts or dataset.default for file in dataset.parts[part]]


def state(file: RemoteFile, folder: Path) -> State:
    """What is there of a file, without a look at its content."""
    if file.unpack is not None and is_unpacked(folder, file.name, file.unpack):
        return "there"
    if (folder / file.name).is_file():
        return "there" if file.unpack is None else "archive"
    return "begun" if _part(folder, file).is_file() else "missing"


def fetch(
    dataset: DataSet,
    folder: Path,
    parts: Sequence[str] = (),
    *,
    mirror: str | None = None,
    keep: bool = False,
    report: Callable[[RemoteFile], Report] = lambda file: silent,  # noqa: ARG005
    done: Callable[[Outcome], None] = lambda outcome: None,  # noqa: ARG005
    pause: Callable[[float], None] = time.sleep,
) -> list[Outcome]:
    """Fetch parts of a data set, check them and unpack them.

    Args:
        dataset: An entry of the catalogue.
        folder: Where to; afterwards it has the layout that `bench` expects.
        parts: Which parts; by default those that the catalogue says.
        mirror: Where to take the files from instead, see `mirror.addresses`. They are checked all the same.
        keep: Keep archives that have been unpacked.
        report: Gives what is told of the progress of a file.
        done: Told of every file that is in its place.
        pause: Waits for so many seconds before another attempt.

    Raises:
        DownloadError: A file cannot be had, or is not what it should be.
        FileWriteError: The disk is full or read-only.
        ConfigError: There is no such part or no such mirror.
    """
    files = chosen_files(dataset, parts)
    urls = addresses(files, mirror)
    _need_folder(folder)
    _need_space(files, folder)
    outcomes = []
    with lock(folder / ".fetch.lock") as held:
        if not held:
            raise DownloadError(f"another process fetches into {folder}; wait for it.")
        for file in files:
            outcome = _fetch_one(file, urls[file.name], folder, keep, report(file), pause)
            outcomes.append(outcome)
            done(outcome)
    return outcomes


def _fetch_one(
    file: RemoteFile,
    urls: Sequence[str],
    folder: Path,
    keep: bool,
    report: Report,
    pause: Callable[[float], None],
) -> Outcome:
    path = folder / file.name
    unpacked = file.unpack is not None and is_unpacked(folder, file.name, file.unpack)
    if unpacked and not path.is_file():
        return Outcome(file, False, None, ours=file.name in recorded(folder))
    fetched = not path.is_file()
    ours = fetched or file.name in recorded(folder)
    verdict = _download(file, urls, folder, report, pause) if fetched else _check(file, path, report)
    links = 0
    if file.unpack is not None:
        if not unpacked:
            links = unpack(path, file.unpack, report)
        if ours and not keep:
            path.unlink()
    return Outcome(file, fetched, verdict, ours, links)


def _check(file: RemoteFile, path: Path, report: Report) -> Verdict:
    """Compare a file that is there; it may be the user's own, so it is never removed."""
    try:
        verdict = verify(path, file, recorded(path.parent).get(file.name), report)
    except DownloadError as error:
        raise DownloadError(f"{path} is there, but {error}; move it away to fetch it anew.") from error
    record(path.parent, file.name, verdict.sha256)
    return verdict


def _download(
    file: RemoteFile, urls: Sequence[str], folder: Path, report: Report, pause: Callable[[float], None]
) -> Verdict:
    part = _part(folder, file)
    reasons = []
    for url in urls:
        try:
            verdict = _from(url, file, part, recorded(folder).get(file.name), report, pause)
        except DownloadError as error:
            reasons.append(str(error))
            continue
        record(folder, file.name, verdict.sha256)
        part.replace(folder / file.name)
        discard(part)
        return verdict
    raise DownloadError(
        f"{file.name} cannot be fetched: {'; '.join(dict.fromkeys(reasons))}; check the network, or give another place "
        "with --url."
    )


def _from(
    url: str, file: RemoteFile, part: Path, known: str | None, report: Report, pause: Callable[[float], None]
) -> Verdict:
    """Take a file from one place; a bad one is removed, and tried once more if it was made of two pieces."""
    resumed = part.is_file()
    transfer(url, file, part, report, pause)
    try:
        return verify(part, file, known, report)
    except DownloadError as error:
        discard(part)
        if resumed:
            return _from(url, file, part, known, report, pause)
        changed = "" if file.checksums else f" (if it was changed on purpose, remove its line from {RECORD})"
        raise DownloadError(f"what {url} gives was thrown away because {error}{changed}") from error


def _need_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileWriteError(f"cannot make the folder {folder}: {error.strerror}; choose another with --to.") from error
    if not os.access(folder, os.W_OK):
        raise FileWriteError(f"the folder {folder} is read-only; choose another with --to.")


def _need_space(files: Sequence[RemoteFile], folder: Path) -> None:
    """Refuse early what cannot fit, as far as sizes are known."""
    needed = 0
    for file in files:
        found = state(file, folder)
        if found in ("missing", "begun"):
            part = _part(folder, file)
            needed += (file.size or 0) - (part.stat().st_size if part.is_file() else 0)
        if found != "there" and file.unpack is not None:
            needed += file.unpack.size or 0
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise FileWriteError(
            f"{folder} needs {needed / 1e9:.1f} GB and its disk has {free / 1e9:.1f} GB left; make room or choose "
            "another folder with --to."
        )


def _part(folder: Path, file: RemoteFile) -> Path:
    return folder / f"{file.name}.part"
