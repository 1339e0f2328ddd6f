"""Writing files so that a kill or a full disk never leaves half of one behind; locks between processes."""

import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError

from cliffordstf.errors import FileWriteError

try:
    import fcntl
except ImportError:  # Windows has no such locks: one process at a time there
    fcntl = None  # type: ignore[assignment]


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Write to a temporary file beside `path`, flush it to disk and rename it: a reader sees all of it or nothing.

    Raises:
        FileWriteError: The disk is full, the folder is read-only or missing.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            with temporary.open("rb+") as stream:
                os.fsync(stream.fileno())
            temporary.chmod(0o666 & ~_umask())  # mkstemp makes files that only their owner can read
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, SafetensorError) as error:  # safetensors reports a full disk as an error of its own
        raise not_written(path, error) from error


def write_folder(path: Path, write: Callable[[Path], None]) -> None:
    """Write a folder of files beside `path`, flush them to disk and rename it; one that is there is replaced.

    Raises:
        FileWriteError: The disk is full, the folder is read-only or missing.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as temporary:
            new, old = Path(temporary, "new"), Path(temporary, "old")
            new.mkdir()
            write(new)
            for file in new.iterdir():
                with file.open("rb+") as stream:
                    os.fsync(stream.fileno())
            if path.exists():
                path.rename(old)
            new.rename(path)
    except OSError as error:
        raise not_written(path, error) from error


def opened(path: Path, mode: str = "a") -> IO[str]:
    """Open a text file that grows line by line, in UTF-8, with folders that are made if need be.

    Raises:
        FileWriteError: It cannot be opened.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open(mode, newline="", encoding="utf-8")
    except OSError as error:
        raise not_written(path, error) from error


def not_written(path: Path, error: Exception) -> FileWriteError:
    """The error about a file that cannot be written, from what the system reported."""
    reason = getattr(error, "strerror", None) or error
    return FileWriteError(f"cannot write {path}: {reason}; check the folder and the disk.")


def write_json(path: Path, values: Any) -> None:
    """Write plain values as JSON, with folders that are made if need be."""
    write_text(path, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, with folders that are made if need be."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes, with folders that are made if need be."""

    def write(target: Path) -> None:
        target.write_bytes(content)

    write_atomically(path, write)


@contextmanager
def lock(path: Path) -> Iterator[bool]:
    """Hold a lock that the system drops with its process; False if another process has it.

    The file names its last holder, see `last_holder`.

    Raises:
        FileWriteError: The folder cannot be written to.
    """
    if fcntl is None:
        yield True
        return
    with opened(path, "a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        try:
            stream.truncate(0)
            stream.write(holder_name(os.getpid()))
            stream.flush()
        except OSError as error:
            raise not_written(path, error) from error
        yield True


def holder_name(process: int) -> str:
    """How lock files call a process of this machine."""
    return f"{platform.node()} {process}"


def last_holder(path: Path) -> str | None:
    """The process that held a lock last, or holds it; None if there was none."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


def _umask() -> int:
    """The process's file-mode mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
