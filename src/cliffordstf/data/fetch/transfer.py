"""One file from one address into `NAME.part`: goes on where it was cut, tries again, and says why it failed."""

import http.client
import json
import os
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cliffordstf import __version__
from cliffordstf.data.fetch.checksums import Report
from cliffordstf.data.fetch.entries import RemoteFile
from cliffordstf.errors import DownloadError, FileWriteError
from cliffordstf.host.files import write_json

ATTEMPTS = 4
"""That come no further than those before; one that does starts the count again."""

FIRST_PAUSE = 1.0
"""Seconds before the second attempt; each further pause is twice as long."""

TIMEOUT = 60.0
"""Seconds without a byte after which a connection counts as cut."""

_BLOCK = 2**16
"""Bytes read at a time, and at most lost when a connection breaks."""

_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers of a server that may be others in a while."""


class PassingError(Exception):
    """A failure that may pass: the next attempt goes on from here."""


def transfer(
    url: str, file: RemoteFile, part: Path, report: Report, pause: Callable[[float], None] = time.sleep
) -> None:
    """Bring a file to `part`, of which the first bytes may be there from an earlier time.

    Raises:
        DownloadError: The address does not give the file; the message is the reason, without an instruction.
        FileWriteError: The disk is full or read-only.
    """
    failures, most = 0, _size(part)
    while True:
        try:
            _attempt(url, file, part, report)
            return
        except PassingError as error:
            failures = 1 if _size(part) > most else failures + 1
            most = max(most, _size(part))
            if failures == ATTEMPTS:
                raise DownloadError(f"{_host(url)} {error}") from error
            pause(FIRST_PAUSE * 2 ** (failures - 1))


def discard(part: Path) -> None:
    """Remove a part and what is noted of it."""
    part.unlink(missing_ok=True)
    _origin(part).unlink(missing_ok=True)


def _attempt(url: str, file: RemoteFile, part: Path, report: Report) -> None:
    have = _size(part)
    if file.exact and have == file.size:
        return  # killed between the last byte and the check
    if file.exact and file.size is not None and have > file.size:
        discard(part)
    headers = {"User-Agent": f"cliffordstf/{__version__}", **_range(url, file, part)}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT) as response:
            _receive(response, url, file, part, report)
    except (DownloadError, FileWriteError):
        raise
    except urllib.error.HTTPError as error:
        with error:
            _refused(error, url, part)
    except urllib.error.URLError as error:
        if urllib.parse.urlsplit(url).scheme == "file":
            raise DownloadError(f"{url} cannot be read ({error.reason})") from error
        if isinstance(error.reason, socket.gaierror) and not _size(part):  # most likely there is no network at all
            raise DownloadError(f"{_host(url)} cannot be found ({error.reason.strerror})") from error
        raise PassingError(f"cannot be reached ({error.reason})") from error
    except (http.client.HTTPException, OSError) as error:
        raise PassingError(f"broke off ({error or type(error).__name__})") from error
    except ValueError as error:
        raise DownloadError(f"{url} is no address ({error})") from error


def _range(url: str, file: RemoteFile, part: Path) -> Mapping[str, str]:
    """Ask only for what is missing, if what is there can be trusted to be of the same file.

    A checksum tells in the end; where none is published the server must say that its file is still the one that the
    part came from.
    """
    have = _size(part)
    if not have:
        return {}
    wanted = {"Range": f"bytes={have}-"}
    origin = _read_origin(part)
    if origin.get("url") == url and origin.get("version"):
        return {**wanted, "If-Range": origin["version"]}
    return wanted if file.checksums else {}


def _refused(error: urllib.error.HTTPError, url: str, part: Path) -> None:
    """Say what an answer means; one of them is that nothing was missing."""
    if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
        if error.headers.get("Content-Range") == f"bytes */{_size(part)}":
            return
        discard(part)
        raise PassingError("has fewer bytes than were there already")
    if error.code in _PASSING:
        raise PassingError(f"answers HTTP {error.code}")
    reasons = {404: "has no such file", 410: "has no such file", 401: "gives no access", 403: "gives no access"}
    raise DownloadError(f"{_host(url)} {reasons.get(error.code, 'refuses')} (HTTP {error.code})")


def _receive(response: Any, url: str, file: RemoteFile, part: Path, report: Report) -> None:
    start = _start(response, url, part)
    length = response.headers.get("Content-Length")
    total = start + int(length) if length is not None else None
    if file.exact and None not in (file.size, total) and total != file.size:
        raise DownloadError(f"{_host(url)} has {total:,} bytes where {file.size:,} are published")
    if not start:
        _note_origin(part, url, response.headers)
    _copy(response, part, start, total or file.size, report)
    if total is not None and _size(part) < total:
        raise PassingError(f"broke off after {_size(part):,} of {total:,} bytes")


def _start(response: Any, url: str, part: Path) -> int:
    """How many bytes of the part are kept; a server that does not know ranges sends the file from its start."""
    if response.status == http.client.PARTIAL_CONTENT:
        first = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
        if first != str(_size(part)):
            discard(part)
            raise PassingError("sent another range than it was asked for")
        return int(first)
    if response.status not in (None, http.client.OK):  # None: a file of this machine
        raise DownloadError(f"{_host(url)} answers HTTP {response.status} instead of the file")
    if response.status is not None and response.headers.get_content_type() == "text/html":
        raise DownloadError(f"{_host(url)} sent a web page instead of the file")
    return 0


def _copy(response: Any, part: Path, start: int, total: int | None, report: Report) -> None:
    done = start
    try:
        with part.open("ab" if start else "wb") as stream:
            for block in _blocks(response):
                stream.write(block)
                done += len(block)
                report("fetching", done, total)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise _no_space(part, error) from error


def _blocks(response: Any) -> Iterator[bytes]:
    """What the server sends; errors of the connection must not be taken for the disk's."""
    while True:
        try:
            block = response.read(_BLOCK)
        except (http.client.HTTPException, OSError) as error:
            raise PassingError(f"broke off ({error or type(error).__name__})") from error
        if not block:
            return
        yield block


def _no_space(part: Path, error: OSError) -> FileWriteError:
    return FileWriteError(
        f"cannot write {part}: {error.strerror or error}; make room or choose another folder with --to, and the same "
        "command goes on from here."
    )


def _origin(part: Path) -> Path:
    return part.with_name(part.name + ".from")


def _note_origin(part: Path, url: str, headers: Any) -> None:
    """Remember which version of which file the part is, as far as the server says."""
    tag = headers.get("ETag", "")
    version = headers.get("Last-Modified", "") if tag.startswith("W/") or not tag else tag  # weak tags allow no ranges
    try:
        write_json(_origin(part), {"url": url, "version": version})
    except OSError as error:
        raise _no_space(part, error) from error


def _read_origin(part: Path) -> dict[str, str]:
    try:
        values = json.loads(_origin(part).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _host(url: str) -> str:
    return urllib.parse.urlsplit(url).hostname or url
