"""Archives: unpacked beside their place first, so that a kill or a trap in them leaves nothing where data belong."""

import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, cast

from cliffordstf.data.fetch.checksums import CHUNK, Report, silent
from cliffordstf.data.fetch.entries import Unpack
from cliffordstf.errors import DownloadError, FileWriteError

ABOUT = "about"
"""Folder for what else is in the archives, such as their readme files."""

_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError)
_LINK = 0o120000
_KIND = 0o170000


def is_unpacked(folder: Path, archive: str, content: Unpack) -> bool:
    """Whether the content is in its place; not if moving it there was not finished."""
    return not staging(folder, archive).exists() and _fits(folder / content.into, content)


def staging(folder: Path, archive: str) -> Path:
    """Where an archive is unpacked first."""
    return folder / f".{archive}.unpacking"


def unpack(archive: Path, content: Unpack, report: Report = silent) -> int:
    """Unpack an archive into the folder that it is in, each content in its place; nothing is ever written elsewhere.

    Returns:
        How many links the archive holds; they are left out.

    Raises:
        DownloadError: It is damaged, leads out of its folder, or does not hold what it should.
        FileWriteError: The disk is full.
    """
    folder = archive.parent
    stage = staging(folder, archive.name)
    try:
        links = _fill(stage, archive, report)
        root = next((item for item in _folders(stage) if _fits(item, content)), None)
        if root is None:
            raise DownloadError(
                f"{archive} holds no folder with {' and '.join(content.holds)}, so its layout has changed; unpack it "
                "yourself and give the folder to bench."
            )
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    try:  # from here on the stage stays until the end: it says that the move was not finished
        _merge(root, folder / content.into)
        _clear(stage, folder / ABOUT / archive.name.partition(".")[0])
    except OSError as error:
        raise _no_space(archive, error) from error
    return links


def _fill(stage: Path, archive: Path, report: Report) -> int:
    shutil.rmtree(stage, ignore_errors=True)  # of an earlier time that was stopped
    try:
        stage.mkdir()
        return (_extract_zip if zipfile.is_zipfile(archive) else _extract_tar)(archive, stage, report)
    except DownloadError:
        raise
    except _DAMAGE as error:
        raise _damaged(archive, error) from error
    except OSError as error:  # without a number it is not from the system, but from a decompressor
        raise (_damaged if error.errno is None else _no_space)(archive, error) from error


def _damaged(archive: Path, error: BaseException) -> DownloadError:
    return DownloadError(
        f"{archive} cannot be unpacked ({type(error).__name__}: {error}); remove it and fetch it again."
    )


def _no_space(archive: Path, error: OSError) -> FileWriteError:
    return FileWriteError(
        f"cannot unpack {archive}: {error.strerror or error}; make room or choose another folder with --to."
    )


def _outside(archive: Path, member: str) -> DownloadError:
    return DownloadError(f"{archive} holds '{member}', which leads out of its folder or is no file; do not use it.")


def _extract_tar(archive: Path, stage: Path, report: Report) -> int:
    if not hasattr(tarfile, "data_filter"):
        raise DownloadError("this Python cannot unpack tar archives safely; update it to 3.11.4 or newer.")
    links = 0

    def plain(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        """Refuse what leads out of the folder; leave out links, which the move to their place would bend."""
        nonlocal links
        try:
            checked = tarfile.data_filter(member, path)
        except tarfile.FilterError as error:
            raise _outside(archive, member.name) from error
        if member.issym() or member.islnk():
            links += 1
            return None
        return checked

    with archive.open("rb") as stream:
        counted = cast(IO[bytes], _Counted(stream, archive.stat().st_size, report))
        with tarfile.open(fileobj=counted, mode="r|*", bufsize=CHUNK) as tar:
            tar.extractall(stage, filter=plain)
    return links


class _Counted:
    """A file that reports how much of it was read."""

    def __init__(self, stream: IO[bytes], total: int, report: Report) -> None:
        self.stream, self.total, self.report = stream, total, report

    def read(self, size: int = -1) -> bytes:
        block = self.stream.read(size)
        self.report("unpacking", self.stream.tell(), self.total)
        return block


def _extract_zip(archive: Path, stage: Path, report: Report) -> int:
    links = 0
    with zipfile.ZipFile(archive) as source:
        members = source.infolist()
        total, done = sum(member.file_size for member in members), 0
        for member in members:
            name = PurePosixPath(member.filename.replace("\\", "/"))
            if name.is_absolute() or ".." in name.parts or any(":" in part for part in name.parts[:1]):
                raise _outside(archive, member.filename)
            if (member.external_attr >> 16) & _KIND == _LINK:
                links += 1
                continue
            target = stage / name
            if member.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with source.open(member) as packed, target.open("wb") as plain:
                while block := packed.read(CHUNK):
                    plain.write(block)
                    done += len(block)
                    report("unpacking", done, total)
    return links


def _folders(top: Path) -> Iterator[Path]:
    """A folder and all under it, level by level."""
    level = [top]
    while level:
        yield from level
        level = sorted(item for folder in level for item in folder.iterdir() if item.is_dir())


def _fits(folder: Path, content: Unpack) -> bool:
    return folder.is_dir() and all(next(folder.glob(pattern), None) is not None for pattern in content.holds)


def _merge(source: Path, target: Path) -> None:
    """Move a file or the content of a folder, over what is there of the same name."""
    if source.is_dir() and target.is_dir():
        for item in list(source.iterdir()):
            _merge(item, target / item.name)
        source.rmdir()
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)


def _clear(stage: Path, about: Path) -> None:
    """Keep what else the archive holds, and end the unpacking."""
    if stage.exists():
        if any(item.is_file() for item in stage.rglob("*")):
            _merge(stage, about)
        else:
            shutil.rmtree(stage)
